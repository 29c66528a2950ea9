// Decides whether an engine's output about a statement may be shown when its plan alone does not decide it. Error messages reveal which tables
// and columns exist, and so do parts that binding folded into a constant. The output may be shown if every name that could be a table
// belongs to a database, or a table, that the caller may read. The decision never depends on objects that the caller may not read,
// because the difference would reveal them.
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { TableName } from '../../engines/port/refs.ts';
import type { Statement } from '../../engines/port/statements.ts';
import { foldName } from '../../model/names.ts';
import type { Principal } from '../../model/principal.ts';
import type { Segment } from '../../standard/paths.ts';

/** A statement with more names than this is treated as not visible. */
const namesMax = 100;

export class NameVisibility {
  readonly #catalog: Catalog;
  readonly #authorizer: Authorizer;

  constructor(parts: { readonly catalog: Catalog; readonly authorizer: Authorizer }) {
    this.#catalog = parts.catalog;
    this.#authorizer = parts.authorizer;
  }

  /**
   * `names`: every name in the statement that could be a table (`engine.tableNamesIn`). `authorized`: tables of its plan whose access was
   * checked already.
   */
  async areVisibleTo(
    principal: Principal,
    { catalog, database }: Pick<Statement, 'catalog' | 'database'>,
    names: () => Promise<readonly (readonly string[])[]>,
    authorized: readonly TableName[] = [],
  ): Promise<boolean> {
    if (this.#authorizer.isVisible(principal, 'read', 'catalogs', [])) return true;
    const shown = new Set(
      authorized.map(({ catalog: root, database: databaseName, table }) => keyOf([root, databaseName, table])),
    );
    const pathsToCheck = new Map<string, readonly string[]>();
    for (const name of await names()) {
      // Without a database, an unqualified name cannot refer to a table.
      if (name.length === 1 && database === undefined) continue;
      const path = [...[catalog.name, database ?? ''].slice(0, Math.max(0, 3 - name.length)), ...name];
      if (path.length > 3) return false;
      const key = keyOf(path);
      if (!shown.has(key)) pathsToCheck.set(key, path);
    }
    if (pathsToCheck.size > namesMax) return false;
    for (const path of pathsToCheck.values()) if (!(await this.#isVisible(principal, path))) return false;
    return true;
  }

  async #isVisible(principal: Principal, [root = '', database = '', table = '']: readonly string[]): Promise<boolean> {
    const databasePath: Segment[] = [
      { category: 'catalogs', name: root },
      { category: 'databases', name: database },
    ];
    const tablePaths = ['tables', 'views'].map((category) => [...databasePath, { category, name: table }]);
    for (const candidate of [databasePath, ...tablePaths]) {
      const chain = await this.#catalog.findFolded(candidate);
      if (chain && this.#authorizer.isVisible(principal, 'read', 'catalogs', chain)) return true;
    }
    return false;
  }
}

const keyOf = (path: readonly string[]) => JSON.stringify(path.map(foldName));
