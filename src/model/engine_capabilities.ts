// The capabilities that some engines lack. At least one request needs each of them, and is refused where the engine lacks it
// (engines/required_capability.ts). docs/engines.md is generated from this table, from the engines and from the declarations.

interface CapabilityText {
  /** The object of "the engine does not support ...". */
  readonly feature: string;
  /** What holds where the engine has it. */
  readonly meaning: string;
}

const define = <const K extends string>(table: Record<K, CapabilityText>): Record<K, CapabilityText> => table;

export const engineCapabilities = define({
  enforcedKeys: {
    feature: 'enforced keys',
    meaning: 'No two rows of a table have the same primary key, or the same values in the columns of its unique key.',
  },
  upsert: {
    feature: 'loads that replace the rows with the same primary key',
    meaning: 'A load can replace the rows that have the same primary key as a row of the file.',
  },
  views: {
    feature: 'views',
    meaning: 'A database can contain views.',
  },
  undrop: {
    feature: 'restoring dropped objects',
    meaning: 'Dropped objects can be restored. Otherwise DELETE deletes the data at once, as with `purge=true`.',
  },
  backups: {
    feature: 'backups of a catalog',
    meaning: 'Catalogs and databases can be backed up as of one instant, and restored.',
  },
  catalogSnapshots: {
    feature: 'snapshots of a catalog',
    meaning:
      'All tables of a catalog can be read as of one instant while they are written. Otherwise writes wait while a backup begins.',
  },
  profile: {
    feature: 'profiles of queries',
    meaning: 'The time that a query spends in each operator is measured.',
  },
  exports: {
    feature: 'exports of rows to files',
    meaning: 'The rows of a query can be written to Parquet, CSV, NDJSON and Arrow files.',
  },
  schemaInference: {
    feature: 'inferring the columns of a file',
    meaning: 'The columns of a file and their types are detected, so that a table can be created from the file.',
  },
  parquetFiles: {
    feature: 'loads of Parquet files',
    meaning: 'Parquet files can be loaded.',
  },
  rowPositions: {
    feature: 'positions of rows',
    meaning: 'Each row has a position by which the rows of a table without a key are listed page by page.',
  },
});

export type EngineCapability = keyof typeof engineCapabilities;
