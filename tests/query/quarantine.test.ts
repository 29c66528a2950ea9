// Which statements are quarantined, for how long, and how many are remembered.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Quarantine } from '../../src/engines/warehouses/quarantine.ts';
import { Failure } from '../../src/standard/failure.ts';

const statement = (sql: string, parameters?: readonly unknown[]) => ({
  sql,
  parameters,
  catalog: { id: 'c', name: 'lake' },
  database: 'd',
});

test('a statement is refused by text, parameters, caller and warehouse, for ten minutes', () => {
  let now = 1_000_000;
  const quarantine = new Quarantine(() => now);
  const isRefused = (...about: Parameters<Quarantine['require']>) => {
    try {
      quarantine.require(...about);
      return false;
    } catch (error) {
      return error instanceof Failure && error.code === 'STATEMENT_QUARANTINED';
    }
  };
  const refusal = quarantine.add('w', 'ann', statement('SELECT $1', [1]), true);
  assert.deepEqual(refusal.result, { until: new Date(now + 600_000).toISOString() });
  assert.equal(isRefused('w', 'ann', statement('SELECT $1', [1])), true);
  assert.equal(isRefused('w', 'ann', statement('SELECT $1', [2])), false);
  assert.equal(isRefused('w', 'ann', statement('SELECT  $1', [1])), false);
  assert.equal(isRefused('w', 'bob', statement('SELECT $1', [1])), false);
  assert.equal(isRefused('v', 'ann', statement('SELECT $1', [1])), false);
  now += 600_001;
  assert.equal(isRefused('w', 'ann', statement('SELECT $1', [1])), false);
});

test('the number of entries is bounded, and the oldest is dropped first', () => {
  const quarantine = new Quarantine();
  for (let i = 0; i <= 1_000; i++) quarantine.add('w', 'ann', statement(`SELECT ${i}`), true);
  quarantine.require('w', 'ann', statement('SELECT 0'));
  assert.throws(() => quarantine.require('w', 'ann', statement('SELECT 1')), Failure);
  assert.equal(quarantine.release('v'), 0);
  assert.equal(quarantine.release('w'), 1_000);
  quarantine.require('w', 'ann', statement('SELECT 1'));
});

test('a write that may have been applied can be confirmed by its idempotency key', () => {
  const quarantine = new Quarantine();
  quarantine.add('w', 'ann', statement('DELETE FROM t'), false);
  quarantine.add('w', 'ann', statement('FROM t'), true);
  quarantine.require('w', 'ann', statement('DELETE FROM t'), true);
  assert.throws(() => quarantine.require('w', 'ann', statement('DELETE FROM t')), Failure);
  assert.throws(() => quarantine.require('w', 'ann', statement('FROM t'), true), Failure);
});
