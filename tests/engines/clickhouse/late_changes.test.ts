// A change that reaches a node after another server has repeated it, and after its name has rows again: it must not touch them. The first server
// reaches the node through a proxy that holds a statement back, as a network does, or a server or node that stands still.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import type { Change } from '../../../src/engines/port/changes.ts';
import type { DatabaseRef, TableRef, ViewRef } from '../../../src/engines/port/refs.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { definitionOf, type EngineWorld, openEngine, rowsOf } from '../../conformance/engine/engine_world.ts';
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
      return String(await rowsOf(world, 'SELECT a, b FROM t ORDER BY a', { database }));
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

  const viewOf = ({ database }: Place, view = 'v'): ViewRef => ({ ...database, view });
  const otherText = (place: Place): Change => ({ kind: 'replaceView', view: viewOf(place), sql: 'SELECT 3 AS n' });
  const newer = definitionOf({ c: 'STRING' });
  interface LateChangeOfView {
    /** Of the view `v`, before the change is begun. */
    readonly before?: string;
    readonly change: (place: Place) => Change;
    readonly statement: string;
    /** If the other server does not repeat it. */
    readonly undo?: (place: Place) => Change;
    /** Since then. */
    readonly since: (place: Place) => readonly Change[];
    /** The objects, and the text of `v`. */
    readonly expected: string;
  }
  const changesOfNames: Readonly<Record<string, LateChangeOfView>> = {
    'a creation of a table that was undone': {
      change: ({ database }) => ({ kind: 'createTable', table: { ...database, table: 'made' }, definition }),
      statement: 'CREATE TABLE',
      undo: ({ database }) => ({ kind: 'dropTable', table: { ...database, table: 'made' } }),
      since: () => [],
      expected: '',
    },
    'a creation of a table that was undone and created by another change': {
      change: ({ database }) => ({ kind: 'createTable', table: { ...database, table: 'made' }, definition }),
      statement: 'CREATE OR REPLACE TABLE',
      undo: ({ database }) => ({ kind: 'dropTable', table: { ...database, table: 'made' } }),
      since: ({ database }) => [
        { kind: 'createTable', table: { ...database, table: 'made' }, definition: newer },
        { kind: 'dropTable', table: { ...database, table: 'made' } },
        { kind: 'createTable', table: { ...database, table: 'made' }, definition: newer },
      ],
      expected: 'made (c), made__local (c)',
    },
    'a creation of a view': {
      change: (place) => ({ kind: 'createView', view: viewOf(place), sql: 'SELECT 1 AS n' }),
      statement: 'CREATE OR REPLACE VIEW',
      since: (place) => [otherText(place)],
      expected: 'v (n) SELECT 3 AS n',
    },
    'a creation of a view that was undone': {
      change: (place) => ({ kind: 'createView', view: viewOf(place), sql: 'SELECT 1 AS n' }),
      statement: 'CREATE OR REPLACE VIEW',
      undo: (place) => ({ kind: 'dropView', view: viewOf(place) }),
      since: () => [],
      expected: '',
    },
    'a replacement of a view': {
      before: 'SELECT 1 AS n',
      change: (place) => ({ kind: 'replaceView', view: viewOf(place), sql: 'SELECT 2 AS n' }),
      statement: 'CREATE OR REPLACE VIEW',
      since: (place) => [otherText(place)],
      expected: 'v (n) SELECT 3 AS n',
    },
    'a rename of a view': {
      before: 'SELECT 1 AS n',
      change: (place) => ({ kind: 'renameView', view: viewOf(place), newName: 'w', sql: 'SELECT 1 AS n' }),
      statement: 'RENAME TABLE',
      since: (place) => [
        { kind: 'dropView', view: viewOf(place, 'w') },
        { kind: 'createView', view: viewOf(place), sql: 'SELECT 3 AS n' },
      ],
      expected: 'v (n) SELECT 3 AS n',
    },
    'a drop of a view': {
      before: 'SELECT 1 AS n',
      change: (place) => ({ kind: 'dropView', view: viewOf(place) }),
      statement: 'DROP TABLE',
      since: (place) => [{ kind: 'createView', view: viewOf(place), sql: 'SELECT 3 AS n' }],
      expected: 'v (n) SELECT 3 AS n',
    },
  };
  for (const [title, { before: text, change, statement, undo, since, expected }] of Object.entries(changesOfNames))
    test(`${title} arrives when another server has ended it`, async () => {
      const place = new Place(title);
      await world.change({ kind: 'createDatabase', database: place.database });
      if (text !== undefined) await world.change({ kind: 'createView', view: viewOf(place), sql: text });
      const held = Promise.withResolvers<void>();
      const released = Promise.withResolvers<void>();
      proxy.holdOnce(new RegExp(`(?=.*__${title}\`)(?=.*${statement})`, 's'), () => {
        held.resolve();
        return released.promise;
      });
      const step = randomUUID();
      const outcome = late.engine.apply(change(place), { step, signal }).then(
        () => 'it succeeded',
        (error: unknown) => (error instanceof Failure ? error.code : String(error)),
      );
      await Promise.race([held.promise, outcome.then(assert.fail)]);
      if (undo) await world.engine.apply(undo(place), { step: `${step}/undo`, undoes: step, signal });
      else await world.engine.apply(change(place), { step, signal });
      for (const each of since(place)) await world.change(each);
      released.resolve();
      const code = await outcome;
      assert.equal(await objectsIn(place), expected);
      assert.equal(code, 'CHANGE_IN_PROGRESS');
    });

  const ask = async (body: string) => {
    const response = await fetch(ring.nodes[0]?.url ?? '', { method: 'POST', body });
    const answer = (await response.text()).trim();
    assert.equal(response.status, 200, answer);
    return answer;
  };
  const storedDatabase = ({ database }: Place) =>
    ask(`SELECT name FROM system.databases WHERE endsWith(name, '__${database.database}') FORMAT TSVRaw`);
  /** The names of the tables and views on the server, with their columns, and the texts of views. */
  const objectsIn = async (place: Place) =>
    ask(`SELECT arrayStringConcat(arraySort(groupArray(trimRight(format('{} ({}) {}', name, columns, as_select)))), ', ')
      FROM system.tables AS tables INNER JOIN (SELECT database, table, arrayStringConcat(groupArray(name), ' ') AS columns
        FROM system.columns WHERE default_kind != 'MATERIALIZED' GROUP BY database, table) AS columns
      ON tables.database = columns.database AND tables.name = columns.table
      WHERE database = '${await storedDatabase(place)}' FORMAT TSVRaw`);

  describe('a table that a creation finds', () => {
    const local = async (place: Place) => `\`${await storedDatabase(place)}\`.t__local`;

    test('is kept if it has made it, in an earlier attempt', async () => {
      const place = new Place('repeated');
      await world.change({ kind: 'createDatabase', database: place.database });
      const step = randomUUID();
      const change: Change = { kind: 'createTable', table: place.table, definition };
      await world.engine.apply(change, { step, signal });
      await place.fill();
      await world.engine.apply(change, { step, signal });
      assert.equal(await place.rows(), String(inserted));
    });

    test('is replaced if another creation has left it', async () => {
      const place = new Place('left');
      await place.create();
      await ask(`TRUNCATE TABLE ${await local(place)}`);
      await ask(`DROP TABLE \`${await storedDatabase(place)}\`.t SYNC`);
      await world.change({ kind: 'createTable', table: place.table, definition: newer });
      assert.equal(await objectsIn(place), 't (c), t__local (c)');
    });

    test('is moved aside with its rows if another creation has left it with rows', async () => {
      const place = new Place('left with rows');
      await place.create();
      const uuid = await ask(
        `SELECT uuid FROM system.tables WHERE database = '${await storedDatabase(place)}' AND name = 't__local'`,
      );
      await world.change({ kind: 'createTable', table: place.table, definition: newer });
      assert.equal(await objectsIn(place), 't (c), t__local (c)');
      assert.equal(await ask(`SELECT count() FROM _tabularium_aside.\`${uuid}\``), '2');
    });

    test('is kept if nothing says who has created it', async () => {
      const place = new Place('older');
      await world.change({ kind: 'createDatabase', database: place.database });
      await ask(`CREATE TABLE ${await local(place)} (a Int32, b Int32) ENGINE = MergeTree ORDER BY ()`);
      await ask(`INSERT INTO ${await local(place)} VALUES (1, 10), (2, 20)`);
      await world.change({ kind: 'createTable', table: place.table, definition });
      assert.equal(await place.rows(), String(inserted));
    });
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
