// Whether what an engine makes of a statement may be shown, where its plan does not tell by itself: complaints tell which tables
// and columns exist, and so do parts that binding made a constant of. It may where each name that can be a table's is of a
// database, or a table, that the caller may read; never by what the caller may not read, or the difference would tell of that.
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { Statement, TableName } from '../../engines/engine.ts';
import { foldName } from '../../model/names.ts';
import type { Principal } from '../../model/principal.ts';
import type { Segment } from '../../standard/paths.ts';

/** More names than these are looked up for nobody. */
const namesMax = 100;

export class NameVisibility {
  readonly #catalog: Catalog;
  readonly #authorizer: Authorizer;

  constructor(parts: { readonly catalog: Catalog; readonly authorizer: Authorizer }) {
    this.#catalog = parts.catalog;
    this.#authorizer = parts.authorizer;
  }

  /**
   * `names`: of all that can be a table in the statement (engine.tableNamesIn). `authorised`: tables of its plan, which have been
   * decided on.
   */
  async areKnownTo(
    principal: Principal,
    { catalog, database }: Pick<Statement, 'catalog' | 'database'>,
    names: () => readonly (readonly string[])[],
    authorised: readonly TableName[] = [],
  ): Promise<boolean> {
    if (this.#authorizer.isVisible(principal, 'read', 'catalogs', [])) return true;
    const shown = new Set(authorised.map(({ catalog: root, database: of, table }) => keyOf([root, of, table])));
    const whole = new Map<string, readonly string[]>();
    for (const name of names()) {
      // Without a database, a name alone is the name of nothing.
      if (name.length === 1 && database === undefined) continue;
      const path = [...[catalog.name, database ?? ''].slice(0, Math.max(0, 3 - name.length)), ...name];
      if (path.length > 3) return false;
      const key = keyOf(path);
      if (!shown.has(key)) whole.set(key, path);
    }
    if (whole.size > namesMax) return false;
    for (const path of whole.values()) if (!(await this.#isKnown(principal, path))) return false;
    return true;
  }

  async #isKnown(principal: Principal, [root = '', database = '', table = '']: readonly string[]): Promise<boolean> {
    const within: Segment[] = [
      { category: 'catalogs', name: root },
      { category: 'databases', name: database },
    ];
    const named = ['tables', 'views'].map((category) => [...within, { category, name: table }]);
    for (const part of [within, ...named]) {
      const chain = await this.#catalog.findFolded(part);
      if (chain && this.#authorizer.isVisible(principal, 'read', 'catalogs', chain)) return true;
    }
    return false;
  }
}

const keyOf = (path: readonly string[]) => JSON.stringify(path.map(foldName));
