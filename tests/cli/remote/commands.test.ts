// Commands as processes against a real server: profiles, results, exit codes, loads and exports.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { eventually } from '../../deadline.ts';
import { start, type TestServer } from '../../server.ts';
import { type CommandLine, main, newCommandLine } from './command_process.ts';

let server: TestServer;
let line: CommandLine;
const run: CommandLine['run'] = (words, options) => line.run(words, options);
const path = (name: string) => join(line.directory, name);

before(async () => {
  server = await start();
  line = newCommandLine();
  writeFileSync(path('token'), `${server.token}\n`);
  const signedIn = await run(['login', '--url', server.url, '--token-file', 'token']);
  assert.deepEqual([signedIn.code, signedIn.stderr], [0, '']);
  await server.client.databases.create({ name: 'shop' });
});
after(async () => {
  line.remove();
  await server.close();
});

const profiles = () =>
  JSON.parse(readFileSync(path('config/tabularium/profiles.json'), 'utf8')) as {
    readonly current: string;
    readonly profiles: Readonly<Record<string, { readonly user: string; readonly token: string }>>;
  };

test('profiles are readable by their user only, and a password is exchanged for a token', async () => {
  assert.equal(statSync(path('config/tabularium/profiles.json')).mode & 0o777, 0o600);
  assert.equal(statSync(path('config/tabularium')).mode & 0o777, 0o700);
  const password = 'correct horse battery';
  await server.client.users.create({ name: 'ada', password });
  const words = ['login', '--url', server.url, '--user', 'ada', '--password-stdin', '--profile', 'ada', '--json'];
  const { code, stdout } = await run(words, { input: `${password}\n` });
  assert.deepEqual([code, JSON.parse(stdout)], [0, { profile: 'ada', url: server.url, user: 'ada' }]);
  assert.notEqual(profiles().profiles.ada?.token, password);
  assert.equal(profiles().current, 'ada');
  const denied = await run(['users', 'create', 'eve', '--password', 'x'.repeat(12)]);
  assert.equal(denied.code, 4, denied.stderr);
  assert.match(denied.stderr, /^FORBIDDEN: /);
  assert.equal((await run(['profiles', 'default'])).code, 0);
  assert.equal((await run(['logout', '--profile', 'ada'])).code, 0);
  assert.deepEqual(Object.keys(profiles().profiles), ['default']);
  const wrong = await run(['login', '--url', server.url, '--user', 'ada', '--password-stdin'], { input: 'wrong\n' });
  assert.equal(wrong.code, 4, wrong.stderr);
});

test('a token that no header can have is refused without its text', async () => {
  const { code, stdout, stderr } = await run(['databases', 'list'], { env: { TABULARIUM_TOKEN: 'tab\nularium' } });
  assert.deepEqual([code, stdout], [4, '']);
  assert.match(stderr, /^UNAUTHENTICATED: the token contains/);
  assert.doesNotMatch(stderr, /\bularium/);
});

test('profiles that are damaged, or cannot be written, are named with what to do', async () => {
  const directory = path('damaged');
  mkdirSync(join(directory, 'tabularium'), { recursive: true });
  const env = { XDG_CONFIG_HOME: directory };
  for (const written of ['{"current":"default","profiles":{"default":null}}', '{"profiles":[]}', '\u0000', '[]']) {
    writeFileSync(join(directory, 'tabularium/profiles.json'), written);
    for (const words of [['profiles'], ['sql', '-c', 'SELECT 1']]) {
      const { code, stderr } = await run(words, { env });
      assert.equal(code, 1, stderr);
      assert.match(stderr, /is not a file of profiles: move it away and sign in again\n$/);
    }
  }
  writeFileSync(path('no_directory'), '');
  const signIn = ['login', '--url', server.url, '--token-file', 'token'];
  const { code, stderr } = await run(signIn, { env: { XDG_CONFIG_HOME: path('no_directory') } });
  assert.equal(code, 1, stderr);
  assert.match(stderr, /profiles\.json cannot be written \(a part of its path is a file\): .*set XDG_CONFIG_HOME/);
  assert.doesNotMatch(stderr, /\n {4}at /);
});

test('values are exact in every format', async () => {
  const sql = `SELECT 9007199254740993::BIGINT AS i, 1.50::DECIMAL(38,2) AS d, 'NaN'::DOUBLE AS f, '\\x00\\xFF'::BLOB AS b, [1, NULL] AS l,
    {'x': 170141183460469231731687303715884105727::HUGEINT} AS s, MAP {'k': 2} AS m, 'a|b"c' AS t, NULL AS n`;
  const formatted = async (format: string) => {
    const { code, stdout, stderr } = await run(['sql', '-c', sql, '--format', format]);
    assert.deepEqual([code, stderr], [0, '']);
    return stdout;
  };
  const object =
    '{"i":9007199254740993,"d":1.50,"f":"NaN","b":"AP8=","l":[1,null],"s":{"x":170141183460469231731687303715884105727},"m":[{"key":"k","value":2}],"t":"a|b\\"c","n":null}';
  assert.equal(await formatted('ndjson'), `${object}\n`);
  assert.equal(await formatted('json'), `[\n${object}\n]\n`);
  assert.match(
    await formatted('csv'),
    /^i,d,f,b,l,s,m,t,n\r\n9007199254740993,1\.50,NaN,AP8=,"\[1,null\]",.*,"a\|b""c",\r\n$/,
  );
  assert.match(await formatted('markdown'), /a\\\|b"c/);
  assert.match(await formatted('table'), /^ *i +│ +d │.*\n(.*\n)*\(1 row\)\n$/);
  assert.match(await formatted('vertical'), /^row 1\ni {2}9007199254740993\n/);
  const arrow = await run(['sql', '-c', 'SELECT 1 AS n', '--format', 'arrow', '-o', 'rows.arrow']);
  assert.equal(arrow.code, 0, arrow.stderr);
  assert.equal(readFileSync(path('rows.arrow')).subarray(0, 6).toString(), 'ARROW1');
});

test('each kind of failure has its exit code, and says what to do', async () => {
  const cases: [readonly string[], number, RegExp][] = [
    [['tables', 'get', 'shop.missing'], 1, /^OBJECT_NOT_FOUND: /],
    [['sql', '-c', 'SELECT nothing'], 1, /^SQL_INVALID: .*\n(.*\n)*Correct the SQL/],
    [['tables', 'get', 'missing'], 2, /^give the database: --database NAME/],
    [['tabels'], 2, /Did you mean tables\?/],
    [['tables', 'list', '--databse', 'shop'], 2, /unknown option/],
    [['sql', '--profile', 'none', '-c', 'SELECT 1'], 2, /there is no profile "none"/],
    [['sql', '--url', 'http://127.0.0.1:9', '-c', 'SELECT 1'], 3, /^NO_ANSWER: /],
    [['sql', '-d', 'shop', '-c', ' ; -- nothing\n'], 2, /there is no statement/],
    [['load', 'missing.csv', '-d', 'shop', '-t', 't'], 2, /cannot be read \(it does not exist: check the path/],
    [['load', 'token', 'missing.csv', '-d', 'shop', '-t', 't'], 2, /missing\.csv cannot be read/],
    [['load', '.', '-d', 'shop', '-t', 't'], 2, /^\. is a directory: give its files/],
    [['load', 'token', '-d', 'shop', '-t', '..'], 1, /^INVALID_NAME: .*no object has the name "\.\."/],
    [['export', '-d', 'shop', '-t', 'x'], 2, /give --format: /],
  ];
  for (const [words, code, message] of cases) {
    const ended = await run(words);
    assert.deepEqual([ended.code, ended.stdout], [code, ''], `${words.join(' ')}: ${ended.stderr}`);
    assert.match(ended.stderr, message);
  }
  const failure = await run(['tables', 'get', 'shop.missing', '--json']);
  const { code, result, requestId } = JSON.parse(failure.stderr) as Record<string, unknown>;
  assert.deepEqual(
    [code, result, typeof requestId],
    ['OBJECT_NOT_FOUND', { category: 'tables', name: 'missing' }, 'string'],
  );
});

test('a definition comes from a file or a pipe, and an object that exists is returned if that is wanted', async () => {
  const sql = 'CREATE TABLE orders (id BIGINT PRIMARY KEY, note VARCHAR(20))';
  assert.equal((await run(['tables', 'create', '--database', 'shop', '--file', '-'], { input: sql })).code, 0);
  const again = await run(['tables', 'create', 'orders', '--database', 'shop', '--sql', sql]);
  assert.deepEqual([again.code, again.stderr.split(':')[0]], [1, 'OBJECT_ALREADY_EXISTS']);
  const same = await run([
    'tables',
    'create',
    'orders',
    '--database',
    'shop',
    '--sql',
    sql,
    '--if-exists',
    'return',
    '--json',
  ]);
  assert.deepEqual([same.code, (JSON.parse(same.stdout) as { created: boolean }).created], [0, false]);
  const list = await run(['tables', 'list', '--database', 'shop', '--json']);
  assert.deepEqual(
    (JSON.parse(list.stdout) as { name: string }[]).map(({ name }) => name),
    ['orders'],
  );
});

test('a load with a label is done once, also from a pipe, and what it rejects is shown', async () => {
  writeFileSync(path('orders.csv'), 'id,note\n1,a\n2,b\n3,much too long for this column\n');
  const words = ['load', 'orders.csv', '-d', 'shop', '-t', 'orders', '--label', 'first', '--errors-max', '1'];
  const loaded = await run(words);
  assert.equal(loaded.code, 0, loaded.stderr);
  assert.match(loaded.stdout, /^orders\.csv: 2 rows loaded, 1 rejected\n {2}row 3, note: /);
  const uploads = async () => {
    const events = await server.client.auditEvents.search({}).all();
    return events.filter(({ action }) => action === 'uploads.create').length;
  };
  const sent = await uploads();
  assert.ok(sent > 0);
  const again = await run(words);
  assert.equal(again.stdout, 'orders.csv: loaded before with this label (2 rows), and not again\n', again.stderr);
  assert.equal(await uploads(), sent, 'the file is not sent again');
  const piped = await run(['load', '-', '--name', 'x.ndjson', '-d', 'shop', '-t', 'orders'], { input: '{"id":9}\n' });
  assert.equal(piped.stdout, 'x.ndjson: 1 row loaded\n', piped.stderr);
  assert.deepEqual(await server.rows('shop', 'SELECT count(*), sum(id) FROM orders'), [[3, 12]]);
  const failed = await run(['load', 'orders.csv', '-d', 'shop', '-t', 'orders', '--mode', 'upsert']);
  assert.deepEqual([failed.code, failed.stderr.split(':')[0]], [5, 'DATA_INVALID']);
  const created = await run(['load', 'orders.csv', '-d', 'shop', '-t', 'copied', '--create', '--json']);
  assert.equal((JSON.parse(created.stdout) as { rowsLoaded: number }).rowsLoaded, 3, created.stderr);
});

test('an export goes to a file or a pipe, and leaves nothing on the server', async () => {
  const query = 'SELECT range AS n FROM range(3)';
  const piped = await run(['export', '-d', 'shop', '-c', query, '--format', 'csv']);
  assert.deepEqual([piped.code, piped.stdout], [0, 'n\n0\n1\n2\n'], piped.stderr);
  const file = await run(['export', '-d', 'shop', '-c', query, '-o', 'n.parquet']);
  assert.deepEqual([file.code, file.stdout], [0, '3 rows in n.parquet\n'], file.stderr);
  assert.equal(readFileSync(path('n.parquet')).subarray(0, 4).toString(), 'PAR1');
  const exports = await server.client.tasks.search({ type: 'export' }).all();
  assert.deepEqual(exports, []);
  const full = await run(['export', '-d', 'shop', '-c', query, '--format', 'csv', '-o', '/dev/full']);
  assert.equal(full.code, 1, full.stderr);
});

const endless = 'SELECT count(*) FROM range(100000000000) a, range(1000) b';
const runningQueries = async () => {
  const { runningQueries: running } = await server.client.warehouses('default').get();
  return running;
};

test('Ctrl-C cancels the statement on the server', async () => {
  const work = run(['sql', '-c', endless], {
    started: (kill) =>
      void eventually('the statement runs', async () => (await runningQueries()) > 0).then(() => kill('SIGINT')),
  });
  assert.equal((await work).code, 130);
  await eventually('the statement has ended', async () => (await runningQueries()) === 0);
});

test('Ctrl-C cancels the task that a command waits for', async () => {
  const words = ['databases', 'query', 'shop', '--sql', endless, '--wait-seconds', '0'];
  const isRunning = async () =>
    (await server.client.tasks.search({ type: 'run_query', state: 'running' }).all()).length > 0;
  const work = run(words, {
    started: (kill) => void eventually('the task runs', isRunning).then(() => kill('SIGINT')),
  });
  assert.equal((await work).code, 130);
  await eventually('no task runs', async () => !(await isRunning()));
});

test('a task is shown instead of waited for, and watched to its end', async () => {
  const words = ['databases', 'query', 'shop', '--sql', 'SELECT 1', '--wait-seconds', '0', '--no-wait', '--json'];
  const { taskId } = JSON.parse((await run(words)).stdout) as { taskId: string };
  const watched = await run(['tasks', 'watch', taskId]);
  assert.equal(watched.code, 0, watched.stderr);
  assert.match(watched.stdout, /^run_query succeeded/);
});

test('a reader that ends first is not a failure', async () => {
  const words = [main, 'sql', '-c', 'SELECT * FROM range(3000000)', '--format', 'csv'];
  const child = spawn(process.execPath, words, {
    cwd: line.directory,
    env: line.env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  await once(child.stdout, 'data');
  child.stdout.destroy();
  const [code] = (await once(child, 'close')) as [number | null];
  assert.equal(code, 141);
});
