// Work that is still running when the server stops (recovery, maintenance) must not start an engine, which nothing would stop.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { startServer } from '../../../src/main.ts';
import type { Services } from '../../../src/resources/records/handler_context.ts';
import { readSettings } from '../../../src/settings/read_settings.ts';

test('a warehouse that is requested after the stop is not started', async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'tabularium-stopped-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  let services: Services | undefined;
  const assembled = (all: Services) => {
    services = all;
  };
  const settings = readSettings(['--port=0', `--data-dir=${dataDir}`, '--log-level=silent'], {});
  const server = await startServer(settings, { assembled });
  await services?.warehouses.use('default');
  await server.close();
  await assert.rejects(async () => services?.warehouses.use('default'), { code: 'SHUTTING_DOWN' });
  assert.deepEqual(await services?.warehouses.allRunning(), []);
});
