// Lists in a Parquet file, whose nulls a server reads as empty lists: they are refused, and the other columns of the file are loaded.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import type { FileLoad } from '../../../../src/engines/port/load.ts';
import { admissionRequest } from '../../../admission_request.ts';
import { type EngineWorld, failureOf, openEngine, rowsOf } from '../../../conformance/engine/engine_world.ts';
import { accessTo, engineOn } from '../engine.ts';
import { missingRing, type Ring, startRing } from '../ring/ring.ts';

const skip = missingRing;
let ring: Ring;
let world: EngineWorld;
let path: string;
before(async () => {
  if (skip !== false) return;
  ring = await startRing(1);
  world = await openEngine({}, engineOn(accessTo(ring.nodes), ring.nodes));
  path = join(world.spool, 'lists.parquet');
  const connection = await (await DuckDBInstance.create()).connect();
  const target = path.replaceAll("'", "''");
  await connection.run(`COPY (SELECT 1 AS id, [1] AS list UNION ALL SELECT 2, NULL) TO '${target}' (FORMAT parquet)`);
  connection.closeSync();
});
after(async () => {
  await world?.close();
  await ring?.close();
});

test('a list is refused, and left out if it is not loaded', { skip }, async () => {
  const definition = await world.table('t', { id: 'INT', list: 'ARRAY<INT>' });
  const load = (columns?: FileLoad['columns']) =>
    world.engine.load(
      {
        table: { catalog: world.catalog, database: world.database, table: 't' },
        definition,
        file: { path, format: 'parquet', csv: {} },
        ...(columns ? { columns } : {}),
        mode: 'append',
        errorsMax: 0,
        dryRun: false,
        rejectsPath: join(world.spool, 'rejected'),
        step: randomUUID(),
      },
      { ...admissionRequest, signal: new AbortController().signal },
    );
  const { code, result } = await failureOf(load());
  assert.deepEqual([code, result.column], ['DATA_INVALID', 'list']);
  assert.equal((await failureOf(load([{ name: 'list', expression: 'list' }]))).code, 'DATA_INVALID');
  assert.equal((await load([{ name: 'id', source: 'id' }])).rowsLoaded, 2);
  assert.deepEqual(await rowsOf(world, 'SELECT * FROM t ORDER BY id'), [
    [1, null],
    [2, null],
  ]);
});
