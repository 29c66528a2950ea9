// The program of the engine process: receives calls from the server, interrupts them, reports that it is alive, and exits with the
// server. Started by engine_process.ts; the server imports nothing from here.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { PageReady } from '../../port/statements.ts';
import type { Interruptible } from '../instance/connection_pool.ts';
import { CallProgress } from '../instance/progress.ts';
import { EngineOperations } from './engine_operations.ts';
import { type FromEngine, heartbeatMs, type Operations, type ToEngine } from './protocol.ts';
import { faultOf } from './wire_errors.ts';

/** An interrupt affects only what runs at that instant; it is repeated for work that is between two steps. */
const interruptIntervalMs = 50;

type Call = Extract<ToEngine, { readonly kind: 'call' }>;

interface Running {
  readonly abort: AbortController;
  connection: DuckDBConnection | undefined;
  interruptTimer: NodeJS.Timeout | undefined;
}

function main(): void {
  // Loaded only to fill the compile cache (see compile_cache.ts): exit.
  if (process.send === undefined) return;
  let engine: EngineOperations | undefined;
  const running = new Map<number, Running>();
  const send = (message: FromEngine) => {
    if (process.connected) process.send?.(message);
  };
  const call = async ({ id, operation, argument, ...options }: Call): Promise<unknown> => {
    if (operation === 'prepare') {
      const { engine: preparedEngine, ...prepared } = await EngineOperations.prepare(
        argument as Operations['prepare'][0],
        send,
      );
      engine = preparedEngine;
      return prepared;
    }
    if (!engine) throw new Error('the engine is not prepared');
    if (operation === 'attach') return engine.attach(argument as Operations['attach'][0]);
    if (operation === 'close') return engine.close();
    const entry: Running = { abort: new AbortController(), connection: undefined, interruptTimer: undefined };
    running.set(id, entry);
    const started: Interruptible = (connection) => {
      entry.connection = connection;
    };
    const reportProgress = (fraction: number) => send({ kind: 'progress', id, fraction });
    const reportPage = (page: PageReady) => send({ kind: 'page', id, page });
    const progress = options.progress ? new CallProgress(() => entry.connection, reportProgress) : undefined;
    try {
      return await engine.run(operation, argument, started, entry.abort.signal, progress?.stage, reportPage);
    } finally {
      progress?.end();
      clearInterval(entry.interruptTimer);
      running.delete(id);
    }
  };
  process.on('message', (message: ToEngine) => {
    if (message.kind === 'interrupt') {
      const entry = running.get(message.id);
      if (!entry || entry.abort.signal.aborted) return;
      entry.abort.abort();
      entry.connection?.interrupt();
      entry.interruptTimer = setInterval(() => entry.connection?.interrupt(), interruptIntervalMs);
      return;
    }
    const { id } = message;
    call(message).then(
      (value) => send({ kind: 'answer', id, value }),
      (error: unknown) => {
        const fault = faultOf(error);
        send({ kind: 'fault', id, fault });
      },
    );
  });
  // Without its server the process is useless, and holds files that the next one needs. It exits at once: the files are consistent
  // at any instant, and a statement that ignores interrupts would delay an orderly exit.
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
  // Ctrl-C at a terminal signals the whole process group; the server decides when to stop.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
  let spilled = 0;
  setInterval(() => {
    // Sends the previous measurement: a slow disk must not delay the heartbeat.
    engine?.spilledBytes().then((bytes) => {
      spilled = bytes;
    });
    send({
      kind: 'heartbeat',
      residentBytes: process.memoryUsage.rss(),
      spilledBytes: spilled,
      runningStatements: engine?.runningStatements ?? 0,
    });
  }, heartbeatMs).unref();
}

main();
