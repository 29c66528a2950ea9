// Whether an engine's complaint about a statement may be shown: it can tell which tables and columns exist. Decided by the names
// that the text holds, because a statement that cannot be bound has no plan; on the safe side where that is not clear.
import type { Decisions } from '../access/decisions.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Statement } from '../engines/engine.ts';
import { foldName } from '../model/names.ts';
import type { Principal } from '../model/principal.ts';

/** With more catalogs or databases than this nobody is told but who may read all. */
const namesMax = 1000;

export class KnownNames {
  readonly #catalog: Catalog;
  readonly #decisions: Decisions;

  constructor(parts: { readonly catalog: Catalog; readonly decisions: Decisions }) {
    this.#catalog = parts.catalog;
    this.#decisions = parts.decisions;
  }

  /** Whether all that the statement can be about is the caller's to read. */
  async areKnownTo(principal: Principal, { sql, catalog, database }: Statement): Promise<boolean> {
    const mayRead = (steps: Parameters<Decisions['mayOn']>[3]) =>
      this.#decisions.mayOn(principal, 'read', 'catalogs', steps);
    if (mayRead([])) return true;
    const catalogs = await this.#catalog.list(null, 'catalogs', { limit: namesMax + 1 });
    const home = catalogs.find(({ id }) => id === catalog.id);
    if (!home || catalogs.length > namesMax) return false;
    const unread = catalogs.filter((one) => one !== home && !mayRead([one])).map(({ name }) => name);
    if (!mayRead([home])) {
      const databases = await this.#catalog.list(home.id, 'databases', { limit: namesMax + 1 });
      if (databases.length > namesMax) return false;
      const own = databases.find(({ name }) => name === database);
      if (!own || !mayRead([home, own])) return false;
      for (const one of databases) if (!mayRead([home, one])) unread.push(one.name);
    }
    const text = foldName(sql.replaceAll('""', '"'));
    return !unread.some((name) => text.includes(foldName(name)));
  }
}
