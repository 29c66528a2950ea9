// A server that can be killed: run by server_process.ts as a child process, which receives by IPC at which step it or its engine's
// process is to be killed with SIGKILL. The product does not know this file.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { EngineWarehouse } from '../../../src/engines/port/engine.ts';
import { startServer } from '../../../src/main.ts';
import type { Services } from '../../../src/resources/records/handler_context.ts';
import { readSettings } from '../../../src/settings/read_settings.ts';
import { columnsInEngine } from './engine_columns.ts';
import { type Fault, FaultPlan } from './fault_plan.ts';
import { faultyEngine } from './faulty_engine.ts';

export type Victim = 'server' | 'engine' | 'both';

export type Order =
  | { readonly kind: 'arm'; readonly victim: Victim; readonly fault: Fault; readonly delayMs: number }
  | { readonly kind: 'disarm' }
  | { readonly kind: 'recover' }
  | { readonly kind: 'maintain' }
  | { readonly kind: 'clock'; readonly ms: number }
  | { readonly kind: 'jump'; readonly ms: number }
  | { readonly kind: 'columns'; readonly path: readonly string[] }
  | { readonly kind: 'stop' };

export type Report =
  | { readonly kind: 'ready'; readonly url: string; readonly token: string }
  | { readonly kind: 'engine'; readonly pid: number }
  | { readonly kind: 'done'; readonly id: number; readonly answer?: unknown; readonly error?: string };

let victim: Victim = 'server';
let delayMs = 0;
let enginePid: number | undefined;
let engine: EngineWarehouse | undefined;
let services: Services | undefined;
let maintain: (() => Promise<void>) | undefined;
/** The clock of the schedules. A restarted server continues with it. */
let clockMs = Number(process.env.FAULTS_CLOCK);

const struckFile = process.env.FAULTS_STRUCK;

/** The difference of the clock of the whole process from the true one. */
let jumpedMs = 0;
const RealDate = Date;
const now = () => RealDate.now() + jumpedMs;
globalThis.Date = new Proxy(RealDate, {
  construct: (target, args) => Reflect.construct(target, args.length === 0 ? [now()] : args),
  get: (target, key) => (key === 'now' ? now : Reflect.get(target, key)),
});

const report = (message: Report) => process.send?.(message);

function kill(): void {
  const pids = [...(victim === 'server' ? [] : [enginePid]), ...(victim === 'engine' ? [] : [process.pid])];
  for (const pid of pids) {
    try {
      if (pid !== undefined) process.kill(pid, 'SIGKILL');
    } catch {
      // It is dead already.
    }
  }
}

const plan = new FaultPlan((_fault, call) => {
  // Written before the kill: the name of the step is known, whichever process was killed.
  if (struckFile !== undefined) writeFileSync(struckFile, call);
  if (delayMs > 0) setTimeout(kill, delayMs);
  else kill();
});

const settings = readSettings(process.argv.slice(2), {});
const server = await startServer(settings, {
  injectStore: ({ sql }) => plan.reach('store', sql),
  wrapEngine: (wrapped) =>
    faultyEngine(wrapped, {
      plan,
      opened: (warehouse) => {
        engine = warehouse;
      },
      started: (pid) => {
        enginePid = pid;
        report({ kind: 'engine', pid });
      },
    }),
  assembled: (all) => {
    services = all;
  },
  maintained: (all) => {
    maintain = all;
  },
  scheduleClock: () => clockMs,
  taskRetryPauseMs: 50,
});

async function execute(order: Order): Promise<unknown> {
  switch (order.kind) {
    case 'arm':
      ({ victim, delayMs } = order);
      return plan.arm(order.fault);
    case 'disarm':
      return plan.disarm();
    case 'recover':
      return services?.catalog.recover();
    case 'maintain':
      return maintain?.();
    case 'clock':
      clockMs = order.ms;
      return services?.schedules.changed();
    case 'jump':
      jumpedMs = order.ms;
      return undefined;
    case 'columns':
      return columnsInEngine(
        services as Services,
        () => engine as EngineWarehouse,
        join(settings.dataDir, 'spool'),
        order.path,
      );
    case 'stop':
      return server.close();
  }
}

process.on('message', ({ id, order }: { id: number; order: Order }) => {
  execute(order).then(
    (answer) => report({ kind: 'done', id, answer }),
    (error: unknown) => report({ kind: 'done', id, error: String(error) }),
  );
});
// Its parent has exited: no process may remain.
process.on('disconnect', () => process.exit(1));

report({ kind: 'ready', url: server.url, token: server.token });
