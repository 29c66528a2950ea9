// What keeps the writes of one of several servers away from a catalog while another one moves it or takes a snapshot of it: a server that the others may take for dead
// writes nothing, and acknowledges nothing that it wrote meanwhile. Implemented where the store is known (holds/).

import type { HoldKind } from './catalog_writes.ts';

export interface WriteFence {
  /**
   * Resolves when the others know that this server writes, and this one knows which catalogs they hold. Throws STORE_UNAVAILABLE.
   * @returns what `requireUnbroken` needs.
   */
  passed(): Promise<number>;
  /** Why another server holds the writes to the catalog; undefined if none does. */
  heldFor(catalogId: string): HoldKind | undefined;
  /** Throws CHANGE_IN_PROGRESS if another server holds the writes to the catalog, or has moved it away. */
  requireFree(catalogId: string): void;
  /** Before a write is acknowledged. Throws STORE_UNAVAILABLE, with an unknown outcome, if it may not count in a catalog that was moved. */
  requireUnbroken(since: number, catalogIds: readonly string[]): Promise<void>;
}
