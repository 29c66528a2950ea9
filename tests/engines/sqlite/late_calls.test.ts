// The engine outlives the servers that call it, so calls arrive late: after another server has undone or completed the change. They do
// nothing, and what was acknowledged survives the end of the engine's process.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { after, test } from 'node:test';
import type { Change } from '../../../src/engines/port/changes.ts';
import type { EngineWarehouse } from '../../../src/engines/port/engine.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { definitionOf, failureOf, openEngine, rowsOf, spec } from '../../conformance/engine/engine_world.ts';
import { sqliteEngine, startEngineServer } from './sqlite.ts';

let process = await startEngineServer();
const engineOf = sqliteEngine(async () => process.port);
const world = await openEngine({}, engineOf);
after(async () => {
  await world.close();
  process.child.kill();
});

const { engine, catalog, database } = world;
/** Another server on the same engine. */
const other: EngineWarehouse = engineOf.open({
  name: 'w',
  spec: { ...spec, engine: engineOf.name },
  dataDirectory: world.directory,
  spoolDirectory: world.spool,
  observe: () => undefined,
  catalogs: async () => [catalog],
});
await other.start();
after(() => other.stop());

const { signal } = new AbortController();
const refOf = (table: string) => ({ catalog, database, table });
const definition = definitionOf({ a: 'INT' });
const creation = (table: string): Change => ({ kind: 'createTable', table: refOf(table), definition });
const isMissing = async (table: string) =>
  assert.equal((await failureOf(world.run(`SELECT a FROM ${table}`))).code, 'SQL_INVALID');

test('a creation that arrives after its undo creates nothing', async () => {
  const step = randomUUID();
  const undo: Change = { kind: 'dropTable', table: refOf('undone') };
  await other.apply(undo, { step: `${step}/undo`, undoes: step, signal });
  assert.equal((await failureOf(engine.apply(creation('undone'), { step, signal }))).code, 'CHANGE_IN_PROGRESS');
  await isMissing('undone');
});

test('a drop that another server completed does not drop the next table of the name', async () => {
  await world.change(creation('dropped'));
  const step = randomUUID();
  const drop: Change = { kind: 'dropTable', table: refOf('dropped') };
  await other.apply(drop, { step, signal });
  await other.forget(catalog, [step]);
  await world.change(creation('dropped'));
  await engine.apply(drop, { step, signal });
  assert.deepEqual(await rowsOf(world, 'SELECT a FROM dropped'), []);
});

test('rows that a second server inserted for a repeated request are not inserted again', async () => {
  await world.change(creation('keyed'));
  const steps = [{ step: randomUUID(), rowCount: 1 }];
  const batch = rowReader(definition.columns).read([[1]]);
  assert.equal(await other.insertRows(refOf('keyed'), batch, { signal, definition, steps }), 1);
  assert.equal(await engine.insertRows(refOf('keyed'), batch, { signal, definition, steps }), 1);
  assert.deepEqual(await rowsOf(world, 'SELECT a FROM keyed'), [[1]]);
});

test('acknowledged rows survive a kill of the process, and calls fail with an unknown outcome or none until it is back', async () => {
  await world.change(creation('lasting'));
  await world.run('INSERT INTO lasting (a) VALUES (1)');
  const ended = once(process.child, 'exit');
  process.child.kill('SIGKILL');
  await ended;
  assert.equal((await failureOf(world.run('SELECT a FROM lasting'))).code, 'WAREHOUSE_FAILED');
  process = await startEngineServer(process.file);
  assert.deepEqual(await rowsOf(world, 'SELECT a FROM lasting'), [[1]]);
});
