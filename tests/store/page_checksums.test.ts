// The store finds every changed byte of a page or of its log, most of which SQLite's own checks accept; a crash at any place is no damage.
import assert from 'node:assert/strict';
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { checkStoreFile } from '../../src/store/sqlite/integrity/store_check.ts';
import { openSqliteStore, StoreDamaged } from '../../src/store/sqlite/sqlite_store.ts';
import type { Store } from '../../src/store/store.ts';
import { flipBytes } from '../faults/damage/damaged_file.ts';
import { Random } from '../random.ts';

const flips = 200;
const ends = ['', '-wal', '-sums'] as const;
let root: string;
const file = (name: string) => join(root, `${name}.sqlite`);
const copyStoreFiles = (from: string, to: string) => {
  for (const end of ends) {
    rmSync(file(to) + end, { force: true });
    if (existsSync(file(from) + end)) copyFileSync(file(from) + end, file(to) + end);
  }
};
async function insertNumbers(store: Store, from: number, count: number): Promise<void> {
  for (let n = from; n < from + count; n++) {
    const row = { key: `key ${n}`, value: `${n} `.repeat(50 + (n % 400)) };
    await store.db.insertInto('settings').values(row).execute();
  }
}

/** `closed`: all in the file. `killed`: as a process that was killed left it, with 20 commits in the log. */
before(async () => {
  root = await mkdtemp(join(tmpdir(), 'tabularium-store-'));
  const store = await openSqliteStore({ file: file('live') });
  await insertNumbers(store, 0, 1500);
  await store.db.deleteFrom('settings').where('key', 'like', 'key 1%').execute();
  await store.close();
  copyStoreFiles('live', 'closed');
  const reopened = await openSqliteStore({ file: file('live') });
  await insertNumbers(reopened, 5000, 20);
  copyStoreFiles('live', 'killed');
  await reopened.close();
});
after(() => rm(root, { recursive: true, force: true }));

test('a store that was closed or killed is intact, and has all its rows', async () => {
  for (const [name, rows] of [
    ['closed', 889],
    ['killed', 909],
  ] as const) {
    copyStoreFiles(name, 'case');
    assert.deepEqual(checkStoreFile(file('case')), { faults: [], isComplete: true });
    const store = await openSqliteStore({ file: file('case') });
    const keys = await store.db.selectFrom('settings').select('key').where('key', 'like', 'key %').execute();
    assert.equal(keys.length, rows);
    assert.deepEqual(await store.check(), []);
    await store.close();
    assert.deepEqual(checkStoreFile(file('case')).faults, []);
  }
});

test('a changed byte anywhere in a page is detected; quick_check accepts most of them', () => {
  const seed = Number(process.env.FAULTS_SEED ?? Date.now() % 1_000_000);
  const random = new Random(seed);
  const size = statSync(file('closed')).size;
  let accepted = 0;
  const missed: number[] = [];
  for (let n = 0; n < flips; n++) {
    copyStoreFiles('closed', 'case');
    const offset = random.below(size);
    flipBytes(file('case'), offset);
    const { faults } = checkStoreFile(file('case'));
    if (!new RegExp(`page ${Math.floor(offset / 4096) + 1} differs`).test(faults.join())) missed.push(offset);
    if (quickCheckAccepts(file('case'))) accepted++;
  }
  console.log(
    `seed ${seed}: quick_check accepts ${accepted} of ${flips} changed bytes, the checksums ${missed.length}`,
  );
  assert.deepEqual(missed, []);
  assert.ok(accepted > 0, 'there would be no need of checksums');
});

test('a changed byte in the log is detected, with the number of lost transactions', async () => {
  const seed = Number(process.env.FAULTS_SEED ?? Date.now() % 1_000_000);
  console.log(`seed ${seed}`);
  const random = new Random(seed);
  const size = statSync(`${file('killed')}-wal`).size;
  for (let n = 0; n < flips; n++) {
    copyStoreFiles('killed', 'case');
    flipBytes(`${file('case')}-wal`, random.below(size));
    assert.match(
      checkStoreFile(file('case')).faults.join(),
      /log is (damaged or cut|.*missing)|log of acknowledged/,
      `${n}`,
    );
  }
  copyStoreFiles('killed', 'case');
  flipBytes(`${file('case')}-wal`, size - 100);
  await assert.rejects(openSqliteStore({ file: file('case') }), (error: StoreDamaged) => {
    assert.ok(error instanceof StoreDamaged);
    assert.match(error.message, /after frame \d+ of \d+: the last acknowledged transaction is lost/);
    return true;
  });
  // Nothing of it was changed by the attempt.
  assert.equal(statSync(`${file('case')}-wal`).size, size);
});

test('a missing or truncated log is detected', () => {
  copyStoreFiles('killed', 'case');
  rmSync(`${file('case')}-wal`);
  assert.match(checkStoreFile(file('case')).faults.join(), /log of acknowledged changes is missing/);
  copyStoreFiles('killed', 'case');
  truncateSync(`${file('case')}-wal`, Math.floor(statSync(`${file('case')}-wal`).size / 2));
  assert.match(checkStoreFile(file('case')).faults.join(), /the last \d+ acknowledged transactions are lost/);
});

test('another program that reads the store, or an end between a commit and its checksums, is no damage', () => {
  copyStoreFiles('killed', 'case');
  const other = new DatabaseSync(file('case'));
  other.prepare('select count(*) from settings').get();
  other.close();
  assert.equal(existsSync(`${file('case')}-wal`), false, 'its end wrote the log into the file');
  assert.deepEqual(checkStoreFile(file('case')).faults, []);
  const length = readFileSync(`${file('killed')}-sums`).length;
  for (const bytes of [1, 20, 60, 200]) {
    copyStoreFiles('killed', 'case');
    truncateSync(`${file('case')}-sums`, length - bytes);
    assert.deepEqual(checkStoreFile(file('case')).faults, [], `${bytes} bytes less`);
  }
});

test('a page that changes while the store is open is detected by its check, and reported by page', async () => {
  copyStoreFiles('closed', 'case');
  const store = await openSqliteStore({ file: file('case') });
  await insertNumbers(store, 9000, 5);
  assert.deepEqual(await store.check(), []);
  flipBytes(file('case'), 4096 * 30 + 1000);
  const writes = insertNumbers(store, 9100, 300);
  const [fault = ''] = await store.check();
  assert.match(fault, /^page 31 differs from what was written$/);
  await writes;
  await store.close();
});

test('damaged checksums are reported; missing ones are created again', async () => {
  copyStoreFiles('killed', 'case');
  flipBytes(`${file('case')}-sums`, 100);
  assert.match(checkStoreFile(file('case')).faults.join(), /checksums is damaged/);
  rmSync(`${file('case')}-sums`);
  const store = await openSqliteStore({ file: file('case') });
  assert.deepEqual(await store.check(), []);
  await store.close();
  flipBytes(file('case'), 4096 * 3 + 10);
  assert.match(checkStoreFile(file('case')).faults.join(), /page 4 differs/);
});

function quickCheckAccepts(path: string): boolean {
  try {
    const database = new DatabaseSync(path, { readOnly: true });
    try {
      const rows = database.prepare('pragma quick_check(1)').all() as { quick_check: string }[];
      return rows.every(({ quick_check }) => quick_check === 'ok');
    } finally {
      database.close();
    }
  } catch {
    return false;
  }
}

test('a store that shrank is intact, however it ended', async () => {
  copyStoreFiles('closed', 'shrunk');
  const store = await openSqliteStore({ file: file('shrunk') });
  await store.db.deleteFrom('settings').where('key', 'like', 'key %').execute();
  await sql`vacuum`.execute(store.db);
  await insertNumbers(store, 9000, 1_200);
  copyStoreFiles('shrunk', 'case');
  assert.deepEqual(checkStoreFile(file('case')).faults, [], 'killed');
  await store.close();
  assert.deepEqual(checkStoreFile(file('shrunk')).faults, [], 'closed');
  const reopened = await openSqliteStore({ file: file('shrunk') });
  await reopened.close();
});

test('a power failure that leaves zeros or half a record at the end of the checksums is no damage', async () => {
  const sums = `${file('case')}-sums`;
  for (const change of [
    () => appendFileSync(sums, Buffer.alloc(4096)),
    () => truncateSync(sums, statSync(sums).size - 3),
    () => writeFileSync(sums, readFileSync(sums).fill(0, statSync(sums).size - 100)),
  ]) {
    copyStoreFiles('killed', 'case');
    change();
    assert.deepEqual(checkStoreFile(file('case')).faults, []);
    await (await openSqliteStore({ file: file('case') })).close();
    assert.deepEqual(checkStoreFile(file('case')).faults, []);
  }
});

test('a start that cannot write the checksums leaves a store that can be started again', async () => {
  copyStoreFiles('killed', 'case');
  const draft = `${file('case')}-sums.draft`;
  mkdirSync(draft);
  const store = await openSqliteStore({ file: file('case') });
  await insertNumbers(store, 9500, 3);
  await store.close();
  rmSync(draft, { recursive: true });
  assert.deepEqual(checkStoreFile(file('case')).faults, []);
  await (await openSqliteStore({ file: file('case') })).close();
});
