// The index by which the unfinished tasks of one user are counted, however many it has that ended.
import type { Migration } from './migration.ts';

export const unfinishedTasksMigration: Migration = {
  name: 'unfinished tasks by owner',
  async up(db) {
    await db.schema.createIndex('tasks_owner_state').on('tasks').columns(['owner', 'state']).execute();
  },
};
