// The settings of the connections to a metadata store on PostgreSQL, and of `store migrate`; part of the table in server_settings.ts.
import type { Setting } from './setting_type.ts';

const section = 'Data';
const migrateSetting = { section: 'Commands', command: 'store migrate' } as const;
const answeringCommands = [
  'audit verify',
  'backup server',
  'backup verify',
  'check',
  'doctor',
  'restore server',
  'secrets rotate',
  'store migrate',
] as const;
const form =
  '`sqlite:<data directory>`, or the URL of a PostgreSQL database as in `store`. A password in it is not accepted as a flag';

export const storeSettings = {
  storeConnections: {
    section,
    type: 'integer',
    min: 2,
    max: 200,
    default: 10,
    doc: 'The maximum number of connections to the PostgreSQL database of `store`; one more follows the changes of other servers.',
  },
  storeConnectTimeoutMs: {
    section,
    type: 'integer',
    min: 100,
    max: 60_000,
    default: 5_000,
    doc: 'How long a request waits for a connection to the database of `store`, and a connection for each of its hosts.',
  },
  storeStatementTimeoutMs: {
    section,
    type: 'integer',
    min: 1_000,
    max: 600_000,
    default: 30_000,
    doc: 'When the database of `store` ends a statement. A database that does not respond at all is given up 5 s later.',
  },
  storeLockTimeoutMs: {
    section,
    type: 'integer',
    min: 100,
    max: 60_000,
    default: 10_000,
    doc: 'How long a statement in the database of `store` waits for a lock that another server holds.',
  },
} as const satisfies Readonly<Record<string, Setting>>;

export const storeMigrateSettings = {
  from: {
    ...migrateSetting,
    type: 'string',
    only: 'flag and variable',
    default: '',
    doc: `For \`store migrate\`: the metadata store to move. ${form}.`,
  },
  to: {
    ...migrateSetting,
    type: 'string',
    only: 'flag and variable',
    default: '',
    doc: `For \`store migrate\`: where to move it; a data directory without a store, or an empty database. ${form}.`,
  },
  json: {
    ...migrateSetting,
    command: answeringCommands,
    type: 'boolean',
    only: 'flag',
    default: false,
    doc: 'For every command but `serve`: prints one JSON object instead of lines, and a failure as JSON to the standard error.',
  },
} as const satisfies Readonly<Record<string, Setting>>;
