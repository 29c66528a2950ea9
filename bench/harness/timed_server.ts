// A server whose calls to the store and to the engine are timed, to show how the time of a request is divided. Reports on request.
// The server itself is unchanged: node:sqlite's methods and the engine's `apply` are wrapped from outside.
import { StatementSync } from 'node:sqlite';
import type { Engine, EngineWarehouse } from '../../src/engines/port/engine.ts';
import { startServer } from '../../src/main.ts';
import { readSettings } from '../../src/settings/read_settings.ts';

const ms: Record<'commit' | 'statement' | 'engine', number> = { commit: 0, statement: 0, engine: 0 };

for (const method of ['run', 'all', 'get'] as const) {
  const original = StatementSync.prototype[method] as (...values: unknown[]) => unknown;
  StatementSync.prototype[method] = function (this: StatementSync, ...values: unknown[]) {
    const startMs = performance.now();
    try {
      return original.apply(this, values);
    } finally {
      ms[this.sourceSQL === 'commit' ? 'commit' : 'statement'] += performance.now() - startMs;
    }
  } as never;
}

function timed(warehouse: EngineWarehouse): EngineWarehouse {
  const apply = warehouse.apply.bind(warehouse);
  return new Proxy(warehouse, {
    get(target, property) {
      if (property === 'apply') {
        return async (...values: Parameters<EngineWarehouse['apply']>) => {
          const startMs = performance.now();
          await apply(...values);
          ms.engine += performance.now() - startMs;
        };
      }
      const value = Reflect.get(target, property, target) as unknown;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

const wrapEngine = (engine: Engine): Engine => ({ ...engine, open: (options) => timed(engine.open(options)) });

const server = await startServer(readSettings(process.argv.slice(2), process.env), { wrapEngine });
process.stdout.write(`  URL    ${server.url}\n`);
process.on('message', () => {
  process.send?.({ ms });
  for (const key of ['commit', 'statement', 'engine'] as const) ms[key] = 0;
});
process.once('SIGTERM', () => void server.close().then(() => process.exit(0)));
