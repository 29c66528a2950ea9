// The files of one catalog are damaged, missing, older than acknowledged work, or those of another catalog: only this catalog is refused,
// with the reason in its record and in the health of its warehouse; its files are not created anew, and the other catalogs are served.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { newPerson } from '../../access/people.ts';
import { eventually, statementWaitSeconds } from '../../deadline.ts';
import { type Reply, type ServerProcess, start, startProcess, type TestServer, uri } from '../../server.ts';
import {
  breakRoot,
  fileOf,
  flipBytes,
  logOf,
  makeUnknownVersion,
  remove,
  replace,
  truncateFile,
} from './damaged_file.ts';

let root: string;
/** `a` is damaged in every case; `b` never is. */
const ids: Record<string, string> = {};
const databaseOf = (catalog: string) => uri`/catalogs/${catalog}/databases/${'d'}`;
const query = (server: TestServer, catalog: string, sql: string) =>
  server.post(`${databaseOf(catalog)}/query`, { sql, waitSeconds: statementWaitSeconds() });
const count = async (server: TestServer, catalog: string) =>
  (await query(server, catalog, 'SELECT count(*) FROM t')).is(200).at('rows', 0, 0);

/** A data directory whose catalogs have 1000 rows in the file, and 10 in the log; and their files before the log was written. */
before(async () => {
  root = await mkdtemp(join(tmpdir(), 'tabularium-damaged-'));
  const base = join(root, 'base');
  let server = await startProcess([], base);
  for (const catalog of ['a', 'b', 'c']) {
    const created = (await server.post('/api/v2/catalogs', { name: catalog })).is(201);
    assert.equal(created.at('state'), 'ready');
    await server.client.catalogs(catalog).databases.create({ name: 'd' });
    const columns = [{ name: 'i', type: 'BIGINT' }];
    (await server.post(`${databaseOf(catalog)}/tables`, { name: 't', columns })).is(201);
    (await query(server, catalog, 'INSERT INTO t SELECT range FROM range(1000)')).is(200);
  }
  await server.close();
  cpSync(base, join(root, 'older'), { recursive: true });
  server = await startProcess([], base);
  for (const catalog of ['a', 'b', 'c'])
    for (let i = 0; i < 10; i++) (await query(server, catalog, `INSERT INTO t VALUES (${i})`)).is(200);
  for (const { name, id } of listCatalogs(server)) ids[name] = id;
  // The position that was recorded a second after the last write, as for a server that was not killed at once.
  await new Promise((resolve) => setTimeout(resolve, 1500));
  server.child.kill('SIGKILL');
  await server.exited;
});
after(async () => {
  await rm(root, { recursive: true, force: true });
});

/** The ids of catalogs are in the store only: the files are identified by what the server attached. */
function listCatalogs(server: ServerProcess): { name: string; id: string }[] {
  const copy = join(root, 'store');
  cpSync(server.dataDirectory, copy, { recursive: true, filter: (path) => !path.includes('/catalogs/') });
  const store = new DatabaseSync(join(copy, 'metadata.sqlite'));
  const rows = store.prepare("SELECT name, id FROM objects WHERE category = 'catalogs'").all();
  store.close();
  return rows as { name: string; id: string }[];
}

interface Case {
  readonly name: string;
  readonly damage: (dataDirectory: string, id: string) => void;
  readonly reason: RegExp;
  /** The missing file that the server must not create anew. */
  readonly missingFile?: (dataDirectory: string, id: string) => string;
}

const cases: readonly Case[] = [
  {
    name: '4 bytes of the header',
    damage: (d, id) => flipBytes(fileOf(d, id), 20, 4),
    reason: /block at byte 0 .*damaged/,
  },
  {
    name: 'a byte of the log',
    damage: (d, id) => flipBytes(logOf(d, id), 100),
    reason: /write-ahead log/,
  },
  {
    name: 'the length of an entry of the log, so that the engine assumes that the log ends there',
    damage: (d, id) => flipBytes(logOf(d, id), 10),
    reason: /log ends after 8 committed bytes, and \d+ were acknowledged/,
  },
  {
    name: 'a truncated log',
    damage: (d, id) => truncateFile(logOf(d, id), 40),
    reason: /log ends after \d+ committed bytes, and \d+ were acknowledged/,
  },
  {
    name: 'a missing log',
    damage: (d, id) => remove(logOf(d, id)),
    reason: /write-ahead log of \d+ bytes .* missing/,
    missingFile: logOf,
  },
  {
    name: 'a missing file',
    damage: (d, id) => {
      remove(fileOf(d, id));
      remove(logOf(d, id));
    },
    reason: /its file is missing/,
    missingFile: fileOf,
  },
  {
    name: 'a directory instead of the file',
    damage: (d, id) => {
      rmSync(fileOf(d, id));
      mkdirSync(fileOf(d, id));
    },
    reason: /its file is a directory: move that away and put the file back, or restore the catalog from a backup/,
  },
  {
    name: 'a named pipe instead of the log',
    damage: (d, id) => {
      rmSync(logOf(d, id));
      execFileSync('mkfifo', [logOf(d, id)]);
    },
    reason: /its write-ahead log is a named pipe: move that away and put the file back/,
  },
  {
    name: 'an empty file',
    damage: (d, id) => truncateFile(fileOf(d, id), Number.POSITIVE_INFINITY),
    reason: /ends after 0 bytes/,
  },
  {
    name: 'an older file',
    damage: (d, id) => {
      remove(logOf(d, id));
      replace(fileOf(d, id), fileOf(join(root, 'older'), id));
    },
    reason: /log of \d+ bytes of acknowledged work is missing|older than work/,
  },
  {
    name: 'the file of another catalog',
    damage: (d, id) => {
      replace(fileOf(d, id), fileOf(d, ids.c as string));
      replace(logOf(d, id), logOf(d, ids.c as string));
    },
    reason: /file of another catalog/,
  },
  {
    name: 'a file that causes an internal error of the engine',
    damage: (d, id) => {
      breakRoot(fileOf(d, id));
    },
    reason: /the engine stopped while it opened its file/,
  },
  {
    name: 'a file of a later release',
    damage: (d, id) => makeUnknownVersion(fileOf(d, id)),
    reason: /newer release of DuckDB in format 9999/,
  },
];

const requireDamaged = (reply: Reply, reason: RegExp) => {
  reply.is(503, 'CATALOG_DAMAGED', { catalog: 'a' });
  assert.match(String(reply.at('reason')), reason);
  assert.match(reply.message, /"a" is damaged/);
  assert.doesNotMatch(reply.text, /retry|\/catalogs\//i);
};

for (const { name, damage, reason, missingFile } of cases) {
  test(`${name}: one catalog is refused, the others are served`, async () => {
    const dataDir = join(root, 'case');
    await rm(dataDir, { recursive: true, force: true });
    cpSync(join(root, 'base'), dataDir, { recursive: true });
    const id = ids.a as string;
    damage(dataDir, id);
    const server = await start({ dataDir, logLevel: 'silent' });
    try {
      assert.equal(await count(server, 'b'), 1010);
      requireDamaged(await query(server, 'a', 'SELECT count(*) FROM t'), reason);
      requireDamaged(await query(server, 'b', 'SELECT count(*) FROM a.d.t'), reason);
      requireDamaged(await server.post(`${databaseOf('a')}/tables/t/rows`, { rows: [[1]] }), reason);
      requireDamaged(await server.post('/api/v2/catalogs/a/databases', { name: 'e' }), reason);
      const record = (await server.get('/api/v2/catalogs/a')).is(200, undefined, { state: 'damaged' });
      assert.match(String(record.at('stateReason')), reason);
      (await server.get('/api/v2/catalogs/b')).is(200, undefined, { state: 'ready', stateReason: null });
      const health = (await server.get('/api/v2/warehouses/default')).at<{ status: string; message: string }>('health');
      assert.equal(health.status, 'degraded');
      assert.match(health.message, /"a": /);
      if (missingFile) assert.equal(existsSync(missingFile(dataDir, id)), false);
      (await server.delete('/api/v2/catalogs/a?cascade=true&purge=true')).is(200);
      assert.equal(existsSync(fileOf(dataDir, id)), false);
      assert.equal(await count(server, 'c'), 1010);
    } finally {
      await server.close();
    }
  });
}

/** A change that has begun and not ended, as a killed server left it in the store. */
function leaveOpen(dataDirectory: string, category: string, name: string, parent: string | null, change: object): void {
  const store = new DatabaseSync(join(dataDirectory, 'metadata.sqlite'));
  const { id } = store
    .prepare('SELECT id FROM objects WHERE category = ? AND name = ? AND parent_id IS ?')
    .get(category, name, parent) as { id: string };
  store.prepare("UPDATE objects SET state = 'altering' WHERE id = ?").run(id);
  store
    .prepare(
      `INSERT INTO intents (id, object_id, verb, undoing, warehouse, change, next, principal, created_at, attempts, engine_deaths)
       VALUES (?, ?, 'update', 0, 'default', ?, ?, 'root', 0, 1, 0)`,
    )
    .run(`open-${id}`, id, JSON.stringify(change), JSON.stringify({ name: 'renamed' }));
  store.close();
  // A program that changes the store itself invalidates its checksums.
  rmSync(join(dataDirectory, 'metadata.sqlite-sums'), { force: true });
}

for (const purge of [false, true]) {
  test(`a damaged catalog with open changes of it and in it is deleted (purge=${purge})`, async () => {
    const dataDir = join(root, 'open');
    await rm(dataDir, { recursive: true, force: true });
    cpSync(join(root, 'base'), dataDir, { recursive: true });
    const id = ids.a as string;
    const catalog = { id, name: 'a' };
    leaveOpen(dataDir, 'catalogs', 'a', null, { kind: 'renameCatalog', catalog, newName: 'renamed' });
    const database = { catalog, database: 'd' };
    leaveOpen(dataDir, 'databases', 'd', id, { kind: 'renameDatabase', database, newName: 'renamed' });
    flipBytes(fileOf(dataDir, id), 20, 4);
    const server = await start({ dataDir, logLevel: 'silent' });
    const openIntents = async () => {
      const { openChanges } = (await server.get('/api/v2/warehouses/default')).result;
      return openChanges;
    };
    try {
      assert.equal(await openIntents(), 2);
      (await server.delete(`/api/v2/catalogs/a?cascade=true&purge=${purge}`)).is(200, undefined, { deleted: true });
      (await server.get('/api/v2/catalogs/a')).is(404, 'OBJECT_NOT_FOUND');
      assert.equal(await openIntents(), 0);
      assert.equal(existsSync(fileOf(dataDir, id)), !purge);
      await server.client.catalogs.create({ name: 'a' });
      assert.equal(await count(server, 'b'), 1010);
    } finally {
      await server.close();
    }
  });
}

test('a damaged block is found by the statement that reads it; other tables and catalogs are served', async () => {
  const dataDir = join(root, 'block');
  cpSync(join(root, 'base'), dataDir, { recursive: true });
  let server = await start({ dataDir });
  (await server.post(`${databaseOf('a')}/tables`, { name: 'large', columns: [{ name: 'i', type: 'BIGINT' }] })).is(201);
  (await query(server, 'a', 'INSERT INTO large SELECT hash(range) % 1000000007 FROM range(300000)')).is(200);
  await server.close();
  const path = fileOf(dataDir, ids.a as string);
  flipBytes(path, Math.floor(statSync(path).size / 2));
  server = await start({ dataDir, logLevel: 'silent' });
  try {
    assert.equal(await count(server, 'a'), 1010);
    (await server.get('/api/v2/catalogs/a')).is(200, undefined, { state: 'ready', stateReason: null });
    const reason = /the block at byte \d+ of its file is damaged/;
    requireDamaged(await query(server, 'a', 'SELECT sum(i) FROM large'), reason);
    requireDamaged(await query(server, 'b', 'SELECT sum(i) FROM a.d.large'), reason);
    const { taskId } = (await server.post(`${databaseOf('a')}/tables/large/optimize`, {})).is(202).result;
    const task = await server.get(uri`/tasks/${String(taskId)}?waitSeconds=30`);
    task.is(200, undefined, { state: 'failed', error: { code: 'CATALOG_DAMAGED' } });
    const record = (await server.get('/api/v2/catalogs/a')).is(200, undefined, { state: 'damaged' });
    assert.match(String(record.at('stateReason')), reason);
    assert.equal(await count(server, 'a'), 1010);
    assert.equal(await count(server, 'b'), 1010);
  } finally {
    await server.close();
  }
});

test('after a checkpoint reads a damaged block, the catalog is refused and the others are served', async () => {
  const dataDir = join(root, 'checkpoint');
  cpSync(join(root, 'base'), dataDir, { recursive: true });
  let server = await start({ dataDir });
  const columns = ['j', 'i'].map((name) => ({ name, type: 'BIGINT' }));
  (await server.post(`${databaseOf('a')}/tables`, { name: 'large', columns })).is(201);
  const text = [{ name: 's', type: 'VARCHAR' }];
  (await server.post(`${databaseOf('a')}/tables`, { name: 'text', columns: text })).is(201);
  // Of fewer rows, the block in the middle of the file has values of both columns.
  (await query(server, 'a', 'INSERT INTO large SELECT range, hash(range) % 1000000007 FROM range(2000000)')).is(200);
  await server.close();
  const path = fileOf(dataDir, ids.a as string);
  flipBytes(path, Math.floor(statSync(path).size / 2));
  server = await start({ dataDir, logLevel: 'silent' });
  try {
    const reason = /the block at byte \d+ of its file is damaged/;
    // The statement reads only the intact column. A checkpoint, which starts when the log is large enough, reads both.
    (await query(server, 'a', 'DELETE FROM large WHERE j % 10 <> 0')).is(200);
    // A checkpoint beside another transaction moves no rows: a later one reads the block.
    const insert = await eventually('a checkpoint has read the block', async () => {
      const reply = await query(server, 'a', `INSERT INTO text SELECT repeat('x', 1000) || range FROM range(30000)`);
      return reply.status !== 200 && reply;
    });
    requireDamaged(insert, reason);
    assert.equal(insert.at('outcome'), 'unknown');
    requireDamaged(await query(server, 'a', 'SELECT count(*) FROM t'), reason);
    assert.match(String((await server.get('/api/v2/catalogs/a')).at('stateReason')), reason);
    assert.equal(await count(server, 'b'), 1010);
    assert.equal(await count(server, 'c'), 1010);
  } finally {
    await server.close();
  }
});

test('a caller who may not see a damaged catalog gets the answers of one that does not exist', async () => {
  const dataDir = join(root, 'hidden');
  cpSync(join(root, 'base'), dataDir, { recursive: true });
  flipBytes(fileOf(dataDir, ids.a as string), 20, 4);
  const server = await start({ dataDir, logLevel: 'silent' });
  try {
    const eve = await newPerson(server, 'eve', [
      ['use', '/warehouses/default'],
      ['read', '/catalogs/b'],
    ]);
    const answer = async (catalog: string, sql: string) => {
      const { status, code, message } = await eve.post(`${databaseOf(catalog)}/query`, {
        sql,
        waitSeconds: statementWaitSeconds(),
      });
      return { status, code, message };
    };
    // With `zz` in the place of `a`, the text differs in that name only.
    for (const sql of [
      'SELECT * FROM a.d.t',
      'INSERT INTO a.d.t VALUES (1)',
      'SELECT 1 WHERE EXISTS (FROM a.d.t)',
      'EXPLAIN SELECT * FROM a.d.t',
    ]) {
      const absent = await answer('b', sql.replace('a.d.t', 'zz.d.t'));
      assert.deepEqual(await answer('b', sql), absent, sql);
      assert.notEqual(absent.code, 'CATALOG_DAMAGED');
    }
    for (const sql of ['SELECT 1', 'SELECT * FROM t', 'SELECT nothing']) {
      const absent = await answer('zz', sql);
      assert.deepEqual(await answer('a', sql), { ...absent, message: absent.message.replace('/zz/', '/a/') }, sql);
    }
    requireDamaged(await query(server, 'b', 'SELECT * FROM a.d.t'), /block at byte 0/);
  } finally {
    await server.close();
  }
});

test('recorded positions survive a second start: an intact catalog is not reported', async () => {
  const dataDir = join(root, 'intact');
  cpSync(join(root, 'base'), dataDir, { recursive: true });
  for (let i = 0; i < 2; i++) {
    const server = await start({ dataDir });
    for (const catalog of ['a', 'b', 'c']) assert.equal(await count(server, catalog), 1010);
    await server.close();
  }
});
