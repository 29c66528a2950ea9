// Stores the recorded positions of catalog files in the metadata store.
import type { PositionRecords, RecordedPosition } from '../engines/port/catalog_storage.ts';
import type { Store } from '../store/store.ts';

export function filePositions(store: Store): PositionRecords {
  return {
    async load() {
      const rows = await store.db.selectFrom('catalog_files').selectAll().execute();
      return new Map(
        rows.map(({ catalog_id, identity, checkpoint, log_bytes }): [string, RecordedPosition] => [
          catalog_id,
          { identity, checkpoint, logBytes: log_bytes },
        ]),
      );
    },
    async isEmpty(catalogId) {
      const query = store.db.selectFrom('objects').select('id').where('parent_id', '=', catalogId).limit(1);
      return (await query.executeTakeFirst()) === undefined;
    },
    async save(positions) {
      await store.transaction(async (tx) => {
        for (const [id, { identity, checkpoint, logBytes }] of positions) {
          // The row would refer to a catalog that has been purged meanwhile.
          const object = await tx.selectFrom('objects').select('id').where('id', '=', id).executeTakeFirst();
          if (!object) continue;
          const position = { identity, checkpoint, log_bytes: logBytes };
          await tx
            .insertInto('catalog_files')
            .values({ catalog_id: id, ...position })
            .onConflict((conflict) => conflict.column('catalog_id').doUpdateSet(position))
            .execute();
        }
      });
    },
  };
}
