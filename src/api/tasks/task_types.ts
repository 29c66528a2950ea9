// The types of tasks and the results of their tasks. From this list derive the results that jobs may return, the tasks that endpoints may
// respond with, and the `result` of a task in the API.
import { type Sendable, type Static, Type } from '../../standard/type.ts';
import { nullable, Timestamp } from '../fields.ts';
import { MoveTaskResult } from '../namespaces/move_result.ts';
import { ColumnOfResult, ResultFiles, Statistics } from '../queries/statement_fields.ts';
import { CatalogsLeftOut } from '../transfer/backup_locations.ts';
import { InferredTable } from '../transfer/inferred_table.ts';

const QueryTaskResult = Type.Object(
  {
    queryId: Type.String(),
    columns: Type.Array(ColumnOfResult),
    rowCount: Type.Integer({ description: 'The number of rows of the result; for DML the number of changed rows.' }),
    truncated: Type.Boolean({ description: 'Whether the result was truncated by `rowsMax`.' }),
    pageCount: Type.Integer({ description: '0 if the rows are in files.' }),
    files: Type.Optional(ResultFiles),
    expiresAt: Type.Optional(Type.String({ format: 'date-time', description: 'The time at which the files expire.' })),
    statistics: Statistics,
  },
  {
    title: 'QueryTaskResult',
    description: 'The result of a statement; its rows are in the pages of the task, or in files.',
  },
);

const ProfileTaskResult = Type.Object(
  {
    profile: Type.Object({}, { additionalProperties: true, description: 'As returned by the action `profile`.' }),
    rowCount: Type.Integer(),
    statistics: Statistics,
    queryId: Type.String(),
  },
  { title: 'ProfileTaskResult', description: 'The result of the profile of a statement.' },
);

const loadResult = {
  rowsLoaded: Type.Integer(),
  rowsRejected: nullable(Type.Integer({ description: 'Null if the count was lost in a crash.' })),
  bytes: nullable(Type.Integer({ description: 'The size of the uncompressed file; null if it was lost in a crash.' })),
  dryRun: Type.Boolean({ description: 'Whether the load was rolled back, as requested by `dryRun`.' }),
  repeated: Type.Boolean({
    description: 'Whether nothing was loaded because a load with this label had succeeded.',
  }),
  rejectedRows: Type.Array(Type.Unknown(), { description: 'The first rejected rows: row, column, reason and text.' }),
  rejectsFileId: nullable(Type.String({ description: 'The file with all rejected rows.' })),
};

const ExportTaskResult = Type.Object(
  {
    queryId: Type.String(),
    columns: Type.Array(ColumnOfResult),
    files: Type.Array(
      Type.Object({
        name: Type.String(),
        bytes: Type.Integer(),
        rows: Type.Integer(),
        sha256: Type.String({ description: 'Hexadecimal.' }),
        fileId: Type.Optional(Type.String()),
        link: Type.Optional(Type.String({ description: 'For a download; not in lists.' })),
      }),
    ),
    fileCount: Type.Integer(),
    bytes: Type.Integer(),
    rowCount: Type.Integer(),
    statistics: Statistics,
    manifestFileId: Type.Optional(Type.String()),
    manifestLink: Type.Optional(Type.String()),
    expiresAt: Type.Optional(
      Type.String({ format: 'date-time', description: 'The time at which files to download expire.' }),
    ),
  },
  { title: 'ExportTaskResult', description: 'The result of an export: the manifest of its files.' },
);

const BackupTaskResult = Type.Object(
  {
    backupId: Type.String(),
    takenAt: Timestamp,
    databases: Type.Integer(),
    tables: Type.Integer(),
    rows: Type.Integer(),
    files: Type.Integer(),
    bytes: Type.Integer(),
    filesSent: Type.Optional(Type.Integer()),
    bytesSent: Type.Optional(Type.Integer()),
    since: Type.Optional(nullable(Type.String({ description: 'The earlier backup whose unchanged data it reuses.' }))),
  },
  { title: 'BackupTaskResult', description: 'The result of a backup of a catalog or a database.' },
);

const RestoreTaskResult = Type.Object(
  {
    name: Type.String(),
    backupId: Type.Optional(Type.String()),
    takenAt: Type.Optional(Timestamp),
    databases: Type.Optional(Type.Integer()),
    tables: Type.Optional(Type.Integer()),
    rows: Type.Optional(Type.Integer()),
    views: Type.Optional(Type.Integer()),
    viewsLeft: Type.Optional(Type.Array(Type.String(), { description: 'Views of the backup that were not restored.' })),
  },
  { title: 'RestoreTaskResult', description: 'The result of a restore; only `name` if the rest was lost in a crash.' },
);

const ServerBackupTaskResult = Type.Object(
  {
    backupId: Type.String(),
    takenAt: Timestamp,
    catalogs: Type.Integer(),
    files: Type.Integer(),
    bytes: Type.Integer(),
    catalogsLeftOut: CatalogsLeftOut,
    secretKey: Type.String({ description: '`plain`, `wrapped` or `outside`: how the secret key is stored.' }),
    heldMs: Type.Optional(Type.Integer({ description: 'How long writes were held back, in milliseconds.' })),
  },
  { title: 'ServerBackupTaskResult', description: 'The result of a backup of the server.' },
);

const CheckTaskResult = Type.Object(
  {
    catalog: Type.String(),
    sound: Type.Boolean(),
    released: Type.Boolean({ description: 'Whether the catalog was refused as damaged, and is available again.' }),
    tablesRead: Type.Integer(),
    faultCount: Type.Integer(),
    faults: Type.Array(
      Type.Object({
        database: nullable(Type.String()),
        table: nullable(Type.String()),
        problem: Type.String({ description: '`damaged` or `different`.' }),
        reason: Type.String(),
      }),
      { description: 'At most the first 100; without database and table, a fault of the whole file.' },
    ),
    advice: nullable(Type.String({ description: 'The recommended action; null if none.' })),
  },
  { title: 'CheckTaskResult', description: 'The result of the check of a catalog.' },
);

const OptimizeTaskResult = Type.Object(
  { rowCount: Type.Integer(), dataBytes: Type.Integer(), dataBytesBefore: Type.Integer() },
  { title: 'OptimizeTaskResult', description: 'The result of the optimization of a table.' },
);

const ChecksumTaskResult = Type.Object(
  {
    rowCount: Type.Integer(),
    columns: Type.Array(
      Type.Object({
        name: Type.String(),
        type: Type.String(),
        nulls: Type.Integer(),
        sums: Type.Array(Type.String(), { description: 'Three integers in decimal.' }),
      }),
    ),
  },
  {
    title: 'ChecksumTaskResult',
    description: 'Checksums of the columns of a table, which do not depend on the order of rows and on the engine.',
  },
);

const DecommissionTaskResult = Type.Object(
  {
    backendId: Type.String(),
    tabletsDropped: Type.Integer({ description: 'The number of tablets of which the backend had a replica.' }),
    queriesCancelled: Type.Integer({
      description: 'The number of statements that were still running after `drainSeconds`.',
    }),
  },
  { title: 'DecommissionTaskResult', description: 'The result of the decommission of a backend.' },
);

const FilledTableTaskResult = Type.Object(
  { name: Type.String(), rowCount: nullable(Type.Integer({ description: 'Null if it was lost in a crash.' })) },
  { title: 'FilledTableTaskResult', description: 'The result of creating a table with rows.' },
);

const ChangeTaskResult = Type.Object(
  { name: Type.String(), version: Type.Integer() },
  {
    title: 'ChangeTaskResult',
    description: 'The result of a change: the name and the version of the object after it.',
  },
);

/** The result of a task by its type. Names of types are stored and never change. */
export const taskResults = {
  run_query: QueryTaskResult,
  profile_query: ProfileTaskResult,
  load_table: Type.Object(
    { ...loadResult },
    { title: 'LoadTaskResult', description: 'The result of a load into a table.' },
  ),
  load_database: Type.Union([
    Type.Object(
      { ...loadResult, table: Type.String() },
      { title: 'NewTableTaskResult', description: 'The result of a load that creates a table.' },
    ),
    InferredTable,
  ]),
  create_filled_table: FilledTableTaskResult,
  alter_table: ChangeTaskResult,
  rename_database: ChangeTaskResult,
  undrop_table: ChangeTaskResult,
  undrop_database: ChangeTaskResult,
  optimize_table: OptimizeTaskResult,
  checksum_table: ChecksumTaskResult,
  check_catalog: CheckTaskResult,
  move_catalog: MoveTaskResult,
  decommission_backend: DecommissionTaskResult,
  export: ExportTaskResult,
  backup: BackupTaskResult,
  restore: RestoreTaskResult,
  server_backup: ServerBackupTaskResult,
  /** A run of a schedule whose action was refused: it failed before it started. */
  scheduled_request: Type.Null(),
};

export type TaskType = keyof typeof taskResults;
const isTaskType = (type: string): type is TaskType => Object.hasOwn(taskResults, type);
export const taskTypes: readonly TaskType[] = Object.keys(taskResults).filter(isTaskType);
export type TaskResultOf<T extends TaskType> = Sendable<Static<(typeof taskResults)[T]>>;

interface Titled {
  readonly type?: string;
  readonly title?: string;
  readonly anyOf?: readonly Titled[];
}
const titlesOf = ({ type, title, anyOf }: Titled): string | undefined =>
  title ?? anyOf?.map(titlesOf).join(' or ') ?? type;

/** The `result` in the record of a task. */
export const TaskResult = Type.Union(
  [
    QueryTaskResult,
    ProfileTaskResult,
    taskResults.load_table,
    ...taskResults.load_database.anyOf,
    FilledTableTaskResult,
    ChangeTaskResult,
    OptimizeTaskResult,
    ChecksumTaskResult,
    CheckTaskResult,
    MoveTaskResult,
    DecommissionTaskResult,
    ExportTaskResult,
    BackupTaskResult,
    RestoreTaskResult,
    ServerBackupTaskResult,
    Type.Null(),
  ],
  {
    description: `Null unless it has succeeded; which one follows from its type: ${Object.entries(taskResults)
      .map(([type, schema]) => `\`${type}\`: ${titlesOf(schema)}`)
      .join('; ')}. Files in it have links, valid for an hour, if a single task is requested; lists have none.`,
  },
);
