// `import`: brings a database over from a file or another server, and compares both sides.
import { closeSync, openSync, readSync } from 'node:fs';
import { Command } from 'commander';
import { TabulariumError } from '../../../client/errors.ts';
import type { ImportSource, NotCarried, OpenFileSource, SourceDatabase } from '../../../model/import_source.ts';
import { formatType } from '../../../model/types.ts';
import { addServerOptions, type CallOptions, type Runtime } from '../call_options.ts';
import { CommandError, exitCodes } from '../exit_codes.ts';
import { unreadable } from '../field_options.ts';
import { exactJson } from '../output/value_text.ts';
import { carriedOver } from './carried.ts';
import { type ImportReport, planText, reportText } from './import_report.ts';
import { importTable, type TableImport, type TableOutcome } from './import_table.ts';
import { importViews } from './import_views.ts';

interface ImportOptions extends CallOptions {
  readonly from?: string;
  readonly catalog: string;
  readonly database: string;
  readonly schema?: string;
  readonly table?: readonly string[];
  readonly dryRun?: boolean;
}

/** How files of the engines of the server begin, and what opens them; main.ts passes them. */
export interface FileSource {
  readonly magic: string;
  readonly offset: number;
  readonly open: OpenFileSource;
}

export function importCommand(runtime: Runtime, fileSources: readonly FileSource[]): Command {
  const command = new Command('import').description(
    'Brings a database over: a DuckDB file, a SQLite file, or a PostgreSQL database. Tables are created and loaded, views are created where their SQL is accepted, and the rows and checksums of each table are compared with those of the source. What does not carry over is listed. Run again, it does nothing twice.',
  );
  command.argument('[file]', 'the DuckDB or SQLite file');
  addServerOptions(command)
    .option(
      '--from <url>',
      'a PostgreSQL database, postgres://user@host:port/name; the password is in PGPASSWORD or ~/.pgpass',
    )
    .option('--catalog <name>', 'the catalog', 'default')
    .requiredOption(
      '-d, --database <name>',
      'the database that receives the tables; it is created if it does not exist',
    )
    .option('--schema <name>', 'the schema of the source; by default the main one')
    .option('-t, --table <names...>', 'only these tables, and no views')
    .option('--dry-run', 'show what would be created and what does not carry over, and change nothing');
  command.addHelpText(
    'after',
    '\nExamples:\n  tabularium import shop.duckdb -d shop --dry-run\n  tabularium import --from postgres://ada@db.example.com/shop -d shop',
  );
  return command.action(async (file: string | undefined) => {
    const options = command.opts<ImportOptions>();
    const connection = runtime.connect(options);
    const output = runtime.output(options);
    const { signal } = runtime;
    const source = await openSource(file, options, fileSources);
    try {
      output.note(`reading ${source.name}`);
      const found = carriedOver(await source.read(signal));
      requireTables(found, options);
      if (options.dryRun === true)
        return await output.write(
          options.json ? `${exactJson(planRecord(source, options, found))}\n` : planText(found),
        );
      const notCarried: NotCarried[] = [...found.notCarried];
      const { client } = connection;
      const database = client.catalogs(options.catalog).databases(options.database);
      const work: TableImport = { source, database, client, output, signal, notCarried };
      await createDatabase(work, options);
      const tables: TableOutcome[] = [];
      for (const table of found.tables) {
        signal.throwIfAborted();
        tables.push(await importTable(table, work));
      }
      const views = await importViews(found.views, work);
      const { catalog, database: name } = options;
      const report: ImportReport = { source: source.name, catalog, database: name, tables, views, notCarried };
      await output.write(options.json ? `${exactJson(report)}\n` : reportText(report));
      process.exitCode = exitCodeOf(tables);
    } finally {
      await source.close();
    }
  });
}

function exitCodeOf(tables: readonly TableOutcome[]): number {
  if (tables.some(({ state }) => state === 'failed')) return exitCodes.failed.code;
  return tables.some(({ state }) => state === 'different') ? exitCodes.differs.code : exitCodes.succeeded.code;
}

async function createDatabase({ client, signal }: TableImport, { catalog, database }: ImportOptions): Promise<void> {
  try {
    await client.catalogs(catalog).databases.create({ name: database }, { ifExists: 'return', signal });
  } catch (error) {
    // Who may not create databases may use one that exists.
    if (!(error instanceof TabulariumError) || error.status !== 403) throw error;
    await client.catalogs(catalog).databases(database).get({ signal });
  }
}

/** Throws CommandError if a table that was asked for does not exist. */
function requireTables({ tables, notCarried }: SourceDatabase, { table: wanted = [] }: ImportOptions): void {
  const known = new Set([...tables.map(({ name }) => name), ...notCarried.map(({ object }) => object)]);
  const missing = wanted.filter((name) => !known.has(name));
  if (missing.length > 0) throw new CommandError('usage', `the source has no table ${missing.join(', ')}`);
}

const planRecord = (
  { name }: ImportSource,
  { catalog, database }: ImportOptions,
  { tables, views, notCarried }: SourceDatabase,
) => ({
  source: name,
  catalog,
  database,
  dryRun: true,
  tables: tables.map(({ columns, rowCount, ...table }) => ({
    ...table,
    rows: rowCount ?? null,
    columns: columns.map(({ name: column, type, nullable, defaultValue = null }) => ({
      name: column,
      type: formatType(type),
      nullable,
      defaultValue,
    })),
  })),
  views: views.map((view) => ({ name: view.name, sql: view.sql })),
  notCarried,
});

async function openSource(
  file: string | undefined,
  { from, schema, table }: ImportOptions,
  fileSources: readonly FileSource[],
): Promise<ImportSource> {
  const options = { schema, tables: table };
  if ((file === undefined) === (from === undefined))
    throw new CommandError('usage', 'give a file, or --from with a URL');
  if (from !== undefined) return (await import('./postgresql_source.ts')).openPostgresqlSource(from, options);
  const path = file as string;
  const head = headOf(path);
  const found = fileSources.find(({ magic, offset }) => head.startsWith(magic, offset));
  if (found) return found.open(path, options);
  if (head.startsWith('SQLite format 3\0')) return (await import('./sqlite_source.ts')).openSqliteSource(path, options);
  throw new CommandError(
    'usage',
    `${path} is neither a DuckDB file nor a SQLite file; an encrypted one has to be copied without encryption first, and "tabularium load" takes CSV, JSON, NDJSON and Parquet files`,
  );
}

const headBytes = 64;

/** The first bytes of a file, each as one character. Throws CommandError. */
function headOf(path: string): string {
  try {
    const descriptor = openSync(path, 'r');
    try {
      const bytes = Buffer.alloc(headBytes);
      return bytes.subarray(0, readSync(descriptor, bytes, 0, headBytes, 0)).toString('latin1');
    } finally {
      closeSync(descriptor);
    }
  } catch (error) {
    throw unreadable(path, error);
  }
}
