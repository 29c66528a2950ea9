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

interface Shape {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly patternProperties?: Readonly<Record<string, Shape>>;
  readonly required?: readonly string[];
  readonly anyOf?: readonly Shape[];
}
const alternatives = (schema: Shape): readonly Shape[] => schema.anyOf?.flatMap(alternatives) ?? [schema];

test('objects in the body of a PATCH are merge patches: no member is required, and null removes what is optional', () => {
  let checked = 0;
  for (const { name, endpoints } of categoriesWith({ rowsBodyBytesMax: 1 }))
    for (const { verb, body } of endpoints)
      for (const [field, schema] of verb === 'update' ? Object.entries(body?.properties ?? {}) : [])
        for (const { properties, patternProperties = {}, required = [] } of alternatives(schema)) {
          // The delivery of a task is part of the request, not of the object.
          const isOfTask = field === 'notify' && name !== 'schedules';
          const [value] = Object.values(patternProperties);
          const isMap = value !== undefined && ('type' in value || 'anyOf' in value);
          if ((!properties && !isMap) || isOfTask) continue;
          checked += 1;
          assert.deepEqual(required, [], `${name}.${field} requires members; use patchOf`);
          const nulls = isMap ? alternatives(value).filter(({ type }) => type === 'null') : [1];
          assert.equal(nulls.length, 1, `${name}.${field} accepts no null as a value; use mapPatchOf`);
        }
  assert.ok(checked > 12, `${checked} objects`);
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
