// Tasks: the queue, leases, notifications and files.
import { sql } from 'kysely';
import { hasNextRun, hasPendingNotification, isPaused, isQueued, isRunning } from '../index_conditions.ts';
import type { Migration } from './migration.ts';

/** The index for counting the unfinished tasks of a user at a cost independent of the number of ended ones. */
export const unfinishedTasksMigration: Migration = {
  name: 'unfinished tasks by owner',
  async up(db) {
    await db.schema.createIndex('tasks_owner_state').on('tasks').columns(['owner', 'state']).execute();
  },
};

/** The task queue: the order in which tasks begin, and which tasks wait for others. */
export const taskLineMigration: Migration = {
  name: 'priorities, dependencies and the line of tasks',
  async up(db, types) {
    const alter = () => db.schema.alterTable('tasks');
    await alter()
      .addColumn('priority', types.integer, (c) => c.notNull().defaultTo(1))
      .execute();
    await alter().addColumn('place', types.integer).execute();
    await alter()
      .addColumn('waits_for', types.integer, (c) => c.notNull().defaultTo(0))
      .execute();
    await alter().addColumn('after_ids', 'text').execute();
    await alter().addColumn('expected_end_at', types.integer).execute();
    // Tasks that are already pending come first, in the order of their submission.
    await db.updateTable('tasks').set({ place: 0 }).where('state', '=', 'pending').execute();
    // The planner would prefer it to the partial indexes, which contain few rows while it contains all.
    await db.schema.dropIndex('tasks_state').execute();
    const index = (name: string) => db.schema.createIndex(name).on('tasks');
    await index('tasks_line').columns(['priority', 'place', 'task_id']).where(isQueued).execute();
    await index('tasks_line_owner').columns(['owner', 'priority', 'place']).where(isQueued).execute();
    await index('tasks_line_age').columns(['task_id']).where(isQueued).execute();
    await index('tasks_under_way').columns(['task_id']).where(isRunning).execute();
    await index('tasks_paused').columns(['not_before']).where(isPaused).execute();
    await db.schema
      .createTable('task_waits')
      .addColumn('after_id', types.name, (c) => c.notNull())
      .addColumn('task_id', types.name, (c) => c.notNull().references('tasks.task_id').onDelete('cascade'))
      .addPrimaryKeyConstraint('task_waits_key', ['after_id', 'task_id'])
      .execute();
    await db.schema.createIndex('task_waits_task').on('task_waits').column('task_id').execute();
    await db.schema
      .createTable('task_ends')
      .addColumn('task_id', types.name, (c) => c.notNull().primaryKey())
      .addColumn('state', types.name, (c) => c.notNull())
      .execute();
  },
};

/** Webhooks that are called when tasks end, and when the next call is due. */
export const taskNoticesMigration: Migration = {
  name: 'notices of the ends of tasks',
  async up(db, types) {
    await db.schema.alterTable('tasks').addColumn('notify', 'text').execute();
    await db.schema.alterTable('tasks').addColumn('notify_at', types.integer).execute();
    await db.schema.createIndex('tasks_notify').on('tasks').column('notify_at').where(hasPendingNotification).execute();
  },
};

/** The index by which the next webhook of each owner is found. */
export const webhooksOfOwnersMigration: Migration = {
  name: 'webhooks by owner',
  servers: 'expand',
  async up(db) {
    const index = db.schema.createIndex('tasks_notify_owner').on('tasks').columns(['owner', 'notify_at']);
    await index.where(hasPendingNotification).execute();
  },
};

/** The runner of a task and the end of its lease. Tasks that were running before the migration have no runner. */
export const taskLeasesMigration: Migration = {
  name: 'leases of tasks',
  async up(db, types) {
    await db.schema.alterTable('tasks').addColumn('leased_by', types.name).execute();
    await db.schema.alterTable('tasks').addColumn('lease_until', types.integer).execute();
  },
};

/** Links result files to their task, and adds the plans of slow statements. */
export const taskFilesMigration: Migration = {
  name: 'files of tasks, plans of queries',
  async up(db, types) {
    await db.schema.alterTable('files').addColumn('task_id', types.name).execute();
    await db.schema
      .createIndex('files_task')
      .on('files')
      .column('task_id')
      .where(sql<boolean>`task_id is not null`)
      .execute();
    await db.schema.alterTable('queries').addColumn('plan', 'text').execute();
  },
};

/** The run times of schedules, in a table of their own because they change with each run without changing the schedule. */
export const schedulesMigration: Migration = {
  name: 'times of schedules',
  async up(db, types) {
    await db.schema
      .createTable('schedule_times')
      .addColumn('object_id', types.name, (c) => c.notNull().primaryKey().references('objects.id').onDelete('cascade'))
      .addColumn('next_at', types.integer)
      .addColumn('computed_at', types.integer, (c) => c.notNull())
      .addColumn('last_at', types.integer)
      .addColumn('last_task_id', types.name)
      .addColumn('error', 'text')
      .execute();
    await db.schema
      .createIndex('schedule_times_next')
      .on('schedule_times')
      .column('next_at')
      .where(hasNextRun)
      .execute();
    await db.schema.createIndex('schedule_times_computed').on('schedule_times').column('computed_at').execute();
  },
};

/** The process that makes the calls of a schedule, and the end of its lease. */
export const scheduleLeasesMigration: Migration = {
  name: 'leases of schedules',
  async up(db, types) {
    await db.schema.alterTable('schedule_times').addColumn('leased_by', types.name).execute();
    await db.schema.alterTable('schedule_times').addColumn('lease_until', types.integer).execute();
  },
};
