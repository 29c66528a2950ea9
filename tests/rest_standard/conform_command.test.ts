// `conform` as a process: this server passes whole; formats, exit codes, and Ctrl-C.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { liveRules } from '../../src/conformance/live/rules.ts';
import { startBackingUp } from '../backups/backing_up.ts';
import { type CommandLine, newCommandLine } from '../cli/remote/command_process.ts';
import { startFaultyServer } from './faulty_server.ts';

let line: CommandLine;
before(() => {
  line = newCommandLine();
});
after(() => line.remove());

const tokenFile = (token: string): string => {
  writeFileSync(join(line.directory, 'token'), token, { mode: 0o600 });
  return 'token';
};

test('this server passes whole, and nothing is left on it', async () => {
  const { server, directory, close } = await startBackingUp();
  try {
    const objects = async () => {
      const lists = await Promise.all([
        server.client.databases.list().all(),
        server.client.roles.list().all(),
        server.client.catalogs.list().all(),
      ]);
      return lists.flat().map(({ name }) => name);
    };
    const earlier = await objects();
    const words = ['conform', server.url, '--token-file', tokenFile(server.token), '--namespace', 'conform', '--json'];
    const { code, stdout, stderr } = await line.run(words);
    assert.deepEqual([code, stderr], [0, ''], stdout.slice(0, 3000));
    const first = JSON.parse(stdout) as {
      readonly requestCount: number;
      readonly rules: readonly {
        readonly id: string;
        readonly outcome: string;
        readonly notes: readonly string[];
        readonly findings: readonly object[];
      }[];
    };
    const { rules, requestCount } = first;
    // Down to the columns of a table.
    assert.ok(requestCount > 300, String(requestCount));
    const notes = rules.flatMap((rule) => rule.notes);
    for (const reason of ['roles/{role}/grants: its objects have ids', 'tables/{table}/rows: its objects have no path'])
      assert.ok(
        notes.some((note) => note.includes(reason)),
        notes.join('\n'),
      );
    // Its definitions need no tasks.
    assert.deepEqual(
      rules.filter(({ outcome }) => outcome !== 'passed').map(({ id }) => id),
      ['task-uri', 'task-cancel', 'task-delete'],
    );
    assert.deepEqual(await objects(), earlier);
    // Backups are created by tasks.
    const create = JSON.stringify({ name: '{name}', to: { path: directory } });
    const backups = await line.run([...words, '--collection', '/api/v2/server_backups', '--create', create]);
    assert.equal(backups.code, 0, backups.stdout.slice(0, 3000) + backups.stderr);
    const { rules: ofBackups } = JSON.parse(backups.stdout) as typeof first;
    assert.equal(ofBackups.find(({ id }) => id === 'task-uri')?.outcome, 'passed');
    assert.equal(ofBackups.find(({ id }) => id === 'task-delete')?.outcome, 'passed');
    assert.deepEqual(await server.client.serverBackups.list().all(), []);
    // Tables that are filled by a query for some time can be cancelled.
    await server.client.databases.create({ name: 'shop' });
    const sql = 'SELECT count(*) AS n FROM range(20000) a, range(10000) b WHERE a.range <> b.range';
    const filled = JSON.stringify({ name: '{name}', asSelect: { sql, waitSeconds: 0 } });
    const tables = await line.run([...words, '--collection', '/api/v2/databases/shop/tables', '--create', filled]);
    assert.equal(tables.code, 0, tables.stdout.slice(0, 3000) + tables.stderr);
    const { rules: ofTables } = JSON.parse(tables.stdout) as typeof first;
    for (const id of ['task-uri', 'task-cancel', 'task-delete', 'post', 'put', 'object-names'])
      assert.equal(ofTables.find((rule) => rule.id === id)?.outcome, 'passed', id);
    assert.deepEqual(await server.client.databases('shop').tables.list().all(), []);
  } finally {
    await close();
  }
});

test('a service of another kind: text, JUnit, exit codes, and a document of its own', async () => {
  const server = await startFaultyServer('a header of its own kind');
  try {
    const words = ['conform', server.url, '--token-file', tokenFile(server.token), '--namespace', 'ci'];
    const text = await line.run([...words, '--skip', 'task-uri']);
    assert.equal(text.code, 6, text.stderr);
    assert.match(
      text.stdout,
      /^GET \/api\/v1\/boxes: header-names: headers are neither standard nor x-service-\{name\}: x-powered-by$/m,
    );
    assert.match(text.stdout, /^ {4}A5: Headers carry standard HTTP parameters only\.$/m);
    assert.match(text.stdout, /^note: get: a missing object is 404 NOT_FOUND/m);
    assert.match(text.stdout, / of 1 rule, 21 rules kept\n$/);
    const junit = await line.run([...words, '--format', 'junit']);
    assert.equal(junit.code, 6, junit.stderr);
    assert.match(junit.stdout, new RegExp(`tests="${Object.keys(liveRules).length}" failures="1" skipped="0"`));
    writeFileSync(join(line.directory, 'authorization'), 'Basic wrong\n');
    const refused = await line.run(['conform', server.url, '--authorization-file', 'authorization', '--only', 'get']);
    assert.match(refused.stdout, /note: get: GET \/api\/v1\/boxes is refused with 401/);
    const cases: [readonly string[], number, RegExp][] = [
      [['conform', 'http://127.0.0.1:1'], 3, /failed: .*; check the URL and the service/],
      [['conform', server.url, '--namespace', 'a/b'], 2, /--namespace is a letter/],
      [['conform', server.url, '--collection', 'boxes'], 2, /is not the path of a collection/],
      [['conform', server.url, '--only', 'nothing'], 2, /there is no rule "nothing"/],
      [['conform', `${server.url}/api`], 2, /has no OpenAPI document at \/openapi\.json: give --document/],
    ];
    for (const [each, code, message] of cases) {
      const ended = await line.run(each);
      assert.deepEqual([ended.code, ended.stdout], [code, ''], `${each.join(' ')}: ${ended.stderr}`);
      assert.match(ended.stderr, message);
    }
    assert.deepEqual(server.names(), ['first']);
  } finally {
    await server.close();
  }
});

test('Ctrl-C deletes what was created', async () => {
  const server = await startFaultyServer();
  try {
    const changed = server.next('PATCH').then(() => server.next('PATCH'));
    const ended = await line.run(
      ['conform', server.url, '--token-file', tokenFile(server.token), '--namespace', 'ci'],
      {
        started: (kill) => void changed.then(() => kill('SIGINT')),
      },
    );
    assert.deepEqual([ended.code, server.names()], [130, ['first']], ended.stderr);
  } finally {
    await server.close();
  }
});
