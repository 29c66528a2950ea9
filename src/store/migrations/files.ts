// Files, and what is recorded of loads, stored results and the files of catalogs.
import type { Migration } from './migration.ts';

/** Files that callers upload or download (files/file_store.ts). Their bytes are in the data directory. */
export const filesMigration: Migration = {
  name: 'files',
  async up(db, types) {
    await db.schema
      .createTable('files')
      .addColumn('file_id', types.name, (c) => c.notNull().primaryKey())
      .addColumn('kind', types.name, (c) => c.notNull())
      .addColumn('owner', types.name, (c) => c.notNull())
      .addColumn('scopes', 'text')
      .addColumn('name', 'text', (c) => c.notNull())
      .addColumn('state', types.name, (c) => c.notNull())
      .addColumn('bytes', types.integer)
      .addColumn('received_bytes', types.integer, (c) => c.notNull())
      .addColumn('reserved_bytes', types.integer, (c) => c.notNull())
      .addColumn('sha256', types.name)
      .addColumn('created_at', types.integer, (c) => c.notNull())
      .addColumn('created_by', types.name, (c) => c.notNull())
      .addColumn('updated_at', types.integer, (c) => c.notNull())
      .addColumn('expires_at', types.integer, (c) => c.notNull())
      .execute();
    await db.schema.createIndex('files_owner').on('files').columns(['owner', 'kind', 'file_id']).execute();
    await db.schema.createIndex('files_expiry').on('files').column('expires_at').execute();
  },
};

/** Labels of successful loads, by which a repeated load is recognized as long as its table exists. */
export const loadLabelsMigration: Migration = {
  name: 'labels of loads',
  async up(db, types) {
    await db.schema
      .createTable('load_labels')
      .addColumn('table_id', types.name, (c) => c.notNull().references('objects.id').onDelete('cascade'))
      .addColumn('label', types.name, (c) => c.notNull())
      .addColumn('task_id', types.name, (c) => c.notNull())
      .addColumn('result', 'text', (c) => c.notNull())
      .addColumn('created_at', types.integer, (c) => c.notNull())
      .addPrimaryKeyConstraint('load_labels_key', ['table_id', 'label'])
      .execute();
  },
};

/** The tables and views that a stored result was read from (query/results/result_access.ts). */
export const resultSourcesMigration: Migration = {
  name: 'sources of stored results',
  async up(db, types) {
    await db.schema
      .createTable('result_sources')
      .addColumn('task_id', types.name, (c) => c.notNull().primaryKey())
      .addColumn('sources', 'text', (c) => c.notNull())
      .execute();
  },
};

/** Adds the recorded position of each catalog's file, so that a file that is missing or older than acknowledged work is detected. */
export const catalogFilesMigration: Migration = {
  name: 'positions of the files of catalogs',
  async up(db, types) {
    await db.schema
      .createTable('catalog_files')
      .addColumn('catalog_id', types.name, (c) => c.notNull().primaryKey().references('objects.id').onDelete('cascade'))
      .addColumn('identity', types.name, (c) => c.notNull())
      .addColumn('checkpoint', types.integer, (c) => c.notNull())
      .addColumn('log_bytes', types.integer, (c) => c.notNull())
      .execute();
  },
};

/** Adds where a complete file or result is stored, if it is not in the data directory of the server (files/blobs/blob_store.ts). */
export const fileStoreMigration: Migration = {
  name: 'keys in the file store',
  async up(db, types) {
    for (const table of ['files', 'result_sources'])
      await db.schema.alterTable(table).addColumn('stored_as', types.name).execute();
  },
};

/** Adds whose rows a result has and how many bytes, so that all servers count one quota. They are filled in later (query/results/result_access.ts). */
export const resultBytesMigration: Migration = {
  name: 'sizes of stored results',
  servers: 'expand',
  async up(db, types) {
    const results = () => db.schema.alterTable('result_sources');
    await results().addColumn('owner', types.name).execute();
    await results().addColumn('bytes', types.integer).execute();
    await db.schema.createIndex('result_sources_owner').on('result_sources').columns(['owner', 'bytes']).execute();
  },
};
