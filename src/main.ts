// The composition root: names the engines, and runs the commands. What a command does not need is not loaded for it: the parts of a server
// (assembly/start_server.ts) only where one starts.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Foundation, ServerHooks } from './assembly/foundation.ts';
import type { CatalogChecks } from './cli/check/catalog_checks.ts';
import { asksForHelp, commandOf, helpWords, isRemote } from './cli/command.ts';
import { localCommands } from './cli/commands.ts';
import type { RunningServer } from './cli/serve.ts';
import { onOutputLost } from './cli/standard_streams.ts';
import type { Engine } from './engines/port/engine.ts';
import type { OpenFileSource } from './model/import_source.ts';
import { release } from './model/release.ts';
import { OperatorError } from './operator/operator_error.ts';
import { readSettings, readValidSettings, type Settings } from './settings/read_settings.ts';

export type { ServerHooks } from './assembly/foundation.ts';
export type { RunningServer } from './cli/serve.ts';

/** Throws OperatorError: a store that cannot be used, a setting that is wrong, and others. */
export async function startServer(settings: Settings, hooks: ServerHooks = {}): Promise<RunningServer> {
  const { startServer: start } = await import('./assembly/start_server.ts');
  return start(settings, hooks, enginesOf);
}

/** The first one is the engine of warehouses for which none is requested. */
async function enginesOf({ settings, hooks, clusterHosts }: Foundation): Promise<readonly Engine[]> {
  const { duckdbWith } = await import('./engines/duckdb/duckdb.ts');
  const { Confinement } = await import('./engines/duckdb/sandbox/sandbox.ts');
  const { clickhouseWith } = await import('./engines/clickhouse/clickhouse.ts');
  const engine = duckdbWith({
    confinement: new Confinement(settings.engineConfinement),
    spareEngine: settings.spareEngine,
    analysisTimeoutMs: settings.analysisTimeoutMs,
  });
  const { wrapEngine = (each) => each, otherEngines = [] } = hooks;
  return [wrapEngine(engine), wrapEngine(clickhouseWith({ hosts: clusterHosts })), ...otherEngines];
}

/** Those whose data is in the data directory of the server that created the warehouse. */
const enginesWithLocalData: ReadonlySet<string> = new Set(['duckdb']);

/** Loads the library of the engine into this process; only commands need it. */
const checkCatalog: CatalogChecks['checkCatalog'] = async (...file) =>
  (await import('./engines/duckdb/storage/check_file.ts')).checkCatalogFile(...file);

/** How engines of this server would be confined. */
async function confinementOf({ engineConfinement }: Settings) {
  const { Confinement } = await import('./engines/duckdb/sandbox/sandbox.ts');
  const directory = await mkdtemp(join(tmpdir(), 'tabularium-doctor-'));
  try {
    const mode = engineConfinement === 'required' ? 'auto' : engineConfinement;
    return (await new Confinement(mode).launch({ data: directory, writable: [directory] })).confinement;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Files that `import` reads with the library of the engine. */
const fileSources = [
  {
    magic: 'DUCK',
    offset: 8,
    open: async (...file: Parameters<OpenFileSource>) =>
      (await import('./engines/duckdb/import_source/duckdb_source.ts')).openDuckdbSource(...file),
  },
];

async function main(): Promise<void> {
  // Files of this process and its engines are accessible to its user only: SQLite and DuckDB accept no file mode.
  process.umask(0o077);
  const commands = localCommands({
    start: startServer,
    checkCatalog,
    requireTransport: async (settings) => {
      const { openTransport } = await import('./http/connection/transport.ts');
      await openTransport(settings);
    },
    confinementOf,
    isLocalEngine: (name) => enginesWithLocalData.has(name),
    loadChecks: async () => {
      const repairs = await import('./engines/duckdb/storage/repair_file.ts');
      const startScratchServer = (settings: Settings) => startServer(settings, { withoutDefaultCatalog: true });
      return { checkCatalog, startScratchServer, ...repairs };
    },
  });
  const argv = process.argv.slice(2);
  if (isRemote(argv, commands) || asksForHelp(argv)) {
    const { runRemote } = await import('./cli/remote/program.ts');
    process.exitCode = await runRemote(isRemote(argv, commands) ? argv : helpWords(argv), process.env, fileSources);
    return;
  }
  const { command, argument, flags } = commandOf(argv, commands);
  const { settings, invalid } = command.acceptsInvalidSettings
    ? readValidSettings(flags, process.env, command.name)
    : { settings: readSettings(flags, process.env, command.name), invalid: [] };
  const write = (line: string) => void process.stdout.write(`${line}\n`);
  if (!command.outlivesReader || settings.version) onOutputLost((exitCode) => process.exit(exitCode));
  if (settings.version) return write(release);
  const answer = await command.run(settings, settings.json ? () => undefined : write, argument, invalid);
  if (settings.json && answer) write(JSON.stringify(answer));
}

/** As JSON with `--json`: `{code, message, result}`, like the failures of the API. */
const failureText = (error: OperatorError): string =>
  process.argv.includes('--json')
    ? JSON.stringify({ code: 'COMMAND_FAILED', message: error.message, result: {} })
    : error.message;

if (import.meta.main) {
  main().catch((error: unknown) => {
    const isOperatorError = error instanceof OperatorError;
    process.stderr.write(`${isOperatorError ? failureText(error) : ((error as Error).stack ?? String(error))}\n`);
    process.exit(isOperatorError ? error.exitCode : 1);
  });
}
