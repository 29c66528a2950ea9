// A small engine for tests of the port, which is not DuckDB's shape: a process with a SQLite file, which several servers reach on a port
// and which outlives them. What it lacks is in its capabilities.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { engineWith } from '../../../src/engines/derived_engine.ts';
import type { Engine } from '../../../src/engines/port/engine.ts';
import type { TypeKind } from '../../../src/model/types.ts';
import { backend, SqliteWarehouse } from './warehouse.ts';

const unkeyable: readonly TypeKind[] = ['ARRAY', 'MAP', 'STRUCT', 'JSON'];

/** `port`: of the process. */
export const sqliteEngine = (port: () => Promise<number>): Engine => ({
  name: 'sqlite',
  backends: [backend],
  reservedName: () => undefined,
  keyable: (type) => !unkeyable.includes(type.kind),
  rowsPage() {
    throw new Error('rows have no positions');
  },
  isReachedByAllServers: true,
  limits: { columnsMax: 2000 },
  capabilities: {
    enforcedKeys: true,
    upsert: true,
    views: false,
    undrop: true,
    backups: false,
    catalogSnapshots: false,
    profile: false,
    exports: false,
    schemaInference: false,
    parquetFiles: false,
    rowPositions: false,
  },
  open(options) {
    const warehouse = new SqliteWarehouse(options, port);
    return engineWith(warehouse, warehouse.direct);
  },
});

export interface EngineServer {
  readonly child: ChildProcess;
  readonly port: number;
  readonly file: string;
}

const main = fileURLToPath(new URL('server/main.ts', import.meta.url));

const children = new Set<ChildProcess>();
const directories: string[] = [];
process.once('exit', () => {
  for (const child of children) child.kill('SIGKILL');
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
});

/** Starts the process, which ends with this one. `file`: of an earlier process; by default, a new one. */
export async function startEngineServer(file?: string): Promise<EngineServer> {
  const directory = file === undefined ? mkdtempSync(join(tmpdir(), 'tabularium-engine-')) : undefined;
  const path = file ?? join(directory ?? '', 'engine.db');
  const child = spawn(process.execPath, [main, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  children.add(child);
  child.once('exit', () => children.delete(child));
  if (directory !== undefined) directories.push(directory);
  const [line] = (await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    once(child, 'exit').then(() => {
      throw new Error('the engine ended before it was ready');
    }),
  ])) as [string];
  // Neither the process nor the pipe, to which it writes nothing more, keeps this process alive.
  child.stdout.destroy();
  child.unref();
  return { child, port: Number(line), file: path };
}

/** An engine with a process of its own, which starts when it is first needed. */
export function newSqliteEngine(): Engine {
  let server: Promise<EngineServer> | undefined;
  return sqliteEngine(async () => {
    server ??= startEngineServer();
    return (await server).port;
  });
}
