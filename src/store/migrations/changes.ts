// The feed of changes that servers on a shared store follow.
import type { Migration } from './migration.ts';

export const changesMigration: Migration = {
  name: 'feed of changes',
  async up(db, types) {
    await db.schema
      .createTable('changes')
      .addColumn('position', types.integer, (c) => types.increasing(c.primaryKey()))
      .addColumn('server_id', types.name, (c) => c.notNull())
      .addColumn('written_at', types.integer, (c) => c.notNull())
      .addColumn('kind', types.name, (c) => c.notNull())
      .addColumn('notice', 'text', (c) => c.notNull())
      .execute();
    await db.schema.createIndex('changes_time').on('changes').column('written_at').execute();
    // A reader begins at an existing row, so the table is never empty.
    await db.insertInto('changes').values({ server_id: '', written_at: 0, kind: 'begin', notice: '{}' }).execute();
  },
};
