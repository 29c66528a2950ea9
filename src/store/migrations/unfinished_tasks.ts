// The index for counting the unfinished tasks of a user at a cost independent of the number of ended ones.
import type { Migration } from './migration.ts';

export const unfinishedTasksMigration: Migration = {
  name: 'unfinished tasks by owner',
  async up(db) {
    await db.schema.createIndex('tasks_owner_state').on('tasks').columns(['owner', 'state']).execute();
  },
};
