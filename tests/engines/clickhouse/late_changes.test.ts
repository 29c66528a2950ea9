// A change that reaches a node after another server has repeated it, and after its name has rows again: it must not touch them. The first server
// reaches the node through a proxy that holds a statement back, as a network does, or a server or node that stands still.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import type { Change } from '../../../src/engines/port/changes.ts';
import type { DatabaseRef, TableRef } from '../../../src/engines/port/refs.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { definitionOf, type EngineWorld, openEngine } from '../../conformance/engine/engine_world.ts';
import { accessTo, engineOn } from './engine.ts';
import { type CuttingProxy, startCuttingProxy } from './ring/cutting_proxy.ts';
import { clusters, missingRing, type Ring, startRing } from './ring/ring.ts';

const definition = definitionOf({ a: 'INT', b: 'INT' });
const inserted = [
  [1, 10],
  [2, 20],
];
const { signal } = new AbortController();

describe('a change that arrives late', { skip: missingRing, concurrency: true }, () => {
  let ring: Ring;
  let proxy: CuttingProxy;
  let late: EngineWorld;
  let world: EngineWorld;

  before(async () => {
    ring = await startRing(1);
    proxy = await startCuttingProxy(ring.nodes[0]?.url ?? '');
    // It changes the catalog of the other one; its own has another name.
    const engine = engineOn(accessTo([proxy], clusters.shards), [proxy]);
    late = await openEngine({}, { ...engine, catalogName: () => 'unused' });
    world = await openEngine({}, engineOn(accessTo(ring.nodes, clusters.shards), ring.nodes));
  });
  after(async () => {
    await world?.close();
    await late?.close();
    proxy?.close();
    await ring?.close();
  });

  /** A table with two rows in a database of its own: the tests run at the same time. */
  class Place {
    readonly database: DatabaseRef;
    readonly table: TableRef;
    constructor(name: string) {
      this.database = { catalog: world.catalog, database: name };
      this.table = { ...this.database, table: 't' };
    }
    async create(): Promise<void> {
      await world.change({ kind: 'createDatabase', database: this.database });
      await world.change({ kind: 'createTable', table: this.table, definition });
      await this.fill();
    }
    async fill(): Promise<void> {
      await world.engine.insertRows(this.table, rowReader(definition.columns).read(inserted), { signal, definition });
    }
    async rows(): Promise<string> {
      const { database } = this.database;
      return (await world.run('SELECT a, b FROM t ORDER BY a', { database })).rows.toString();
    }
  }
  const failureOf = (work: Promise<unknown>) =>
    work.then(
      () => assert.fail('it succeeded'),
      (error: unknown) => {
        assert.ok(error instanceof Failure, String(error));
        return error;
      },
    );

  const without = definitionOf({ a: 'INT' });
  interface LateChange {
    readonly change: (place: Place) => Change;
    /** Of the change: what is held back. */
    readonly statement: string;
    /** Gives the name rows again. */
    readonly again: (place: Place) => Promise<unknown>;
  }
  const changes: Readonly<Record<string, LateChange>> = {
    'a truncate': {
      change: ({ table }) => ({ kind: 'truncateTable', table }),
      statement: 'TRUNCATE TABLE',
      again: (place) => place.fill(),
    },
    'a drop of a table': {
      change: ({ table }) => ({ kind: 'dropTable', table }),
      statement: 'DROP TABLE .*`t__local`',
      again: (place) => place.create(),
    },
    'a drop of a table that can be restored': {
      change: ({ table }) => ({ kind: 'hideTable', table, id: 'hidden' }),
      statement: 'RENAME TABLE',
      again: async (place) => {
        const hidden = [{ ...place.database, id: 'hidden' }];
        await world.change({ kind: 'purge', catalog: world.catalog, hidden, databases: [] });
        await place.create();
      },
    },
    'a drop of a database': {
      change: ({ database }) => ({ kind: 'dropDatabase', database }),
      statement: 'DROP DATABASE',
      again: (place) => place.create(),
    },
    'a rename of a table': {
      change: ({ table }) => ({ kind: 'renameTable', table, newName: 'other', definition }),
      statement: 'RENAME TABLE',
      again: async (place) => {
        await world.change({ kind: 'dropTable', table: { ...place.table, table: 'other' } });
        await place.create();
      },
    },
    'an alteration': {
      change: ({ table }) => ({ kind: 'alterTable', table, from: definition, to: without, renamedColumns: {} }),
      statement: 'DROP COLUMN',
      again: async (place) => {
        await world.change({ kind: 'dropTable', table: place.table });
        await place.create();
      },
    },
  };

  for (const [title, { change, statement, again }] of Object.entries(changes))
    test(`${title} was repeated by another server, and there are rows since`, async () => {
      const place = new Place(title);
      await place.create();
      const expected = await place.rows();
      const held = Promise.withResolvers<void>();
      const released = Promise.withResolvers<void>();
      proxy.holdOnce(new RegExp(`(?=.*__${title}\`)(?=.*${statement})`, 's'), () => {
        held.resolve();
        return released.promise;
      });
      const step = randomUUID();
      const outcome = failureOf(late.engine.apply(change(place), { step, signal }));
      await held.promise;
      await world.engine.apply(change(place), { step, signal });
      await again(place);
      assert.equal(await place.rows(), expected);
      released.resolve();
      const { code, outcome: effect } = await outcome;
      assert.equal(await place.rows(), expected);
      assert.deepEqual([code, effect], ['CHANGE_IN_PROGRESS', 'unknown']);
    });

  test('a change that another server has taken over before anything was sent changes nothing', async () => {
    const place = new Place('taken over');
    await place.create();
    const expected = await place.rows();
    const confirm = async () => {
      throw new Failure('CHANGE_IN_PROGRESS', 'another server has taken over');
    };
    const change: Change = { kind: 'truncateTable', table: place.table };
    const { code } = await failureOf(world.engine.apply(change, { step: randomUUID(), signal, confirm }));
    assert.equal(code, 'CHANGE_IN_PROGRESS');
    assert.equal(await place.rows(), expected);
  });
});
