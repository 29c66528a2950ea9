// A real release from before the last change of the store's tables, taken from the history of this repository, as a process beside this release on one
// store: both serve, each sees what the other made, and the older one starts again after the expansion, and no more after the contraction.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { migrate, migrations, oldestServerOf, schemaVersion } from '../../src/store/migrations/migrate.ts';
import type { Migration } from '../../src/store/migrations/migration.ts';
import { postgresqlColumnTypes } from '../../src/store/postgresql/column_values.ts';
import { openPostgresqlStore } from '../../src/store/postgresql/postgresql_store.ts';
import { parsePostgresqlUrl } from '../../src/store/postgresql/postgresql_url.ts';
import { statementWaitSeconds } from '../deadline.ts';
import { missingPostgresql, newDatabase, urlOfDatabase } from '../postgresql.ts';
import { type ServerProcess, startProcess } from '../server.ts';
import { seeEachOther } from '../servers/two_servers.ts';

const project = fileURLToPath(new URL('../../', import.meta.url));
const list = 'src/store/migrations/migrate.ts';
const git = (...words: readonly string[]): string =>
  execFileSync('git', ['-C', project, ...words], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();

/** The parent of the commit that added the last migration; undefined if the history does not have it. */
function commitBefore(): string | undefined {
  const [, last = ''] = /(\w+),\n\];\nexport const schemaVersion/.exec(readFileSync(join(project, list), 'utf8')) ?? [];
  assert.notEqual(last, '', `${list} has no last migration`);
  try {
    const [added = ''] = git('log', '--format=%H', '--reverse', `-S${last}`, '--', list).split('\n');
    return git('rev-parse', '--verify', '--quiet', `${added}^`);
  } catch {
    return undefined;
  }
}

const commit = commitBefore();
const suite = 'the release before the last change of the tables';
// A clone without history, which is no lack of the machine.
if (commit === undefined) console.log(`${suite} is not tested: it is not in this clone (git fetch --unshallow)`);
else describe(suite, { skip: missingPostgresql }, () => testBeside(commit));

function testBeside(commit: string): void {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-release-before-'));
  const servers: ServerProcess[] = [];
  after(async () => {
    for (const server of servers) await server.close();
    rmSync(directory, { recursive: true, force: true });
  });
  const release = join(directory, 'release');

  function unpack(): void {
    mkdirSync(release);
    const archive = execFileSync('git', ['-C', project, 'archive', commit, 'bin', 'src', 'package.json'], {
      maxBuffer: 1024 ** 3,
    });
    execFileSync('tar', ['-x', '-C', release], { input: archive });
    symlinkSync(join(project, 'node_modules'), join(release, 'node_modules'));
  }

  async function started(place: string, flags: readonly string[], entry?: URL): Promise<ServerProcess> {
    const server = await startProcess(['--shutdown-timeout-ms=3000', ...flags], join(directory, place), { entry });
    servers.push(server);
    return server;
  }
  async function stopped(server: ServerProcess): Promise<void> {
    servers.splice(servers.indexOf(server), 1);
    await server.close();
  }

  test('serves beside this one on its store, and is refused when what it uses is removed', async () => {
    unpack();
    const entry = pathToFileURL(join(release, 'src/main.ts'));
    const store = urlOfDatabase(await newDatabase());
    const { migrations: before } = (await import(
      pathToFileURL(join(release, list)).href
    )) as typeof import('../../src/store/migrations/migrate.ts');
    assert.equal(before.length, schemaVersion - 1);
    const startOlder = () => started('older', [`--store=${store}`], entry);
    let older = await startOlder();
    (await older.put('/api/v2/databases/made_before')).is(201);
    const key = join(directory, 'older', 'secret.key');
    assert.ok(existsSync(key));
    // A release whose change is no expansion states that all servers are to be stopped.
    const isBeside = oldestServerOf(migrations) < schemaVersion;
    if (!isBeside) await stopped(older);
    const newer = await started('newer', [`--store=${store}`, `--secret-key-file=${key}`]);
    if (isBeside) {
      (await newer.post('/api/v2/warehouses', { name: 'second', threads: 2 })).is(201);
      await seeEachOther(older, newer, ['default', 'second']);
      await serveBoth(older, newer, 'beside');
      await stopped(older);
      older = await startOlder();
      await seeEachOther(older, newer, ['default', 'second']);
      await serveBoth(newer, older, 'again');
      await stopped(older);
      const contraction: Migration = { name: 'removes what servers before use', servers: schemaVersion, async up() {} };
      const later = await openPostgresqlStore({ location: parsePostgresqlUrl(store) });
      await migrate(later.db, postgresqlColumnTypes, [...migrations, contraction]).finally(() => later.close());
    }
    await assert.rejects(startOlder(), /which servers from version \d+ can use, and this release has version/);
    (await newer.get('/api/v2/databases/made_before')).is(200);
  });
}

/** Each makes objects that the other one uses, and reads the rows and the task of the other one. */
async function serveBoth(one: ServerProcess, two: ServerProcess, name: string): Promise<void> {
  for (const [maker, other, catalog] of [
    [one, two, `first_${name}`],
    [two, one, `second_${name}`],
  ] as const) {
    const warehouse = maker === one ? 'default' : 'second';
    (await maker.post('/api/v2/catalogs', { name: catalog, warehouse })).is(201);
    const database = `/api/v2/catalogs/${catalog}/databases/shop`;
    (await other.put(database)).is(201);
    const columns = [{ name: 'id', type: 'BIGINT' }];
    (await maker.post(`${database}/tables`, { name: 't', columns })).is(201);
    (await other.post(`${database}/tables/t/rows`, { rows: [{ id: 1 }] })).is(201);
    (await maker.post(`${database}/tables/t/rows`, { rows: [{ id: 2 }] })).is(201);
    const sql = 'SELECT id FROM t ORDER BY id';
    for (const server of [maker, other]) {
      const query = await server.post(`${database}/query`, { sql, waitSeconds: statementWaitSeconds() });
      assert.deepEqual(query.is(200).at('rows'), [[1], [2]]);
    }
    const task = (await maker.post(`${database}/query`, { sql: 'SELECT count(*) FROM t', waitSeconds: 0 })).is(202);
    (await other.ended(task)).is(200, undefined, { state: 'succeeded' });
  }
}
