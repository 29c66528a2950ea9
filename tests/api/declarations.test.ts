// The declarations load in a browser, where the console and the client use them.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { categoriesWith } from '../../src/resources/index.ts';
import { deadlineMs } from '../deadline.ts';

const root = resolve(import.meta.dirname, '../..');

test('an action that schedules may request is on an object, and always submits a task unless it waits for the result', () => {
  const schedulable = categoriesWith({ rowsBodyBytesMax: 1 }).flatMap(({ endpoints }) =>
    endpoints.filter((endpoint) => endpoint.schedulable),
  );
  assert.ok(schedulable.length > 0);
  for (const { verb, on, task, action, result, body } of schedulable) {
    assert.deepEqual({ verb, on }, { verb: 'action', on: 'object' }, `${action}`);
    assert.ok(task !== undefined && (result === undefined || body?.properties.waitSeconds), `${action}`);
  }
});

test('the declarations load without the modules and globals of Node.js', () => {
  const modules = globSync('src/api/**/*.ts', { cwd: root }).map((path) => pathToFileURL(join(root, path)).href);
  const probe = join(import.meta.dirname, 'browser_probe.ts');
  const options = { encoding: 'utf8', timeout: deadlineMs(20_000) } as const;
  const names = JSON.parse(execFileSync(process.execPath, [probe, ...modules], options)) as readonly string[];
  const served = categoriesWith({ rowsBodyBytesMax: 1 }).map(({ name, parent }) =>
    parent ? `${parent}/${name}` : name,
  );
  assert.deepEqual(names, served.sort(), 'each category that is served is declared once');
});
