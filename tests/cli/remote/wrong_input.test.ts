// Wrong input and a wrong machine: each command ends, with the exit code that docs/cli.md gives, and says what is wrong and what to do next.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { commandsFor } from '../../../src/cli/remote/failure_advice.ts';
import { unreadableBecause } from '../../../src/cli/remote/field_options.ts';
import { start, type TestServer } from '../../server.ts';
import { type CommandLine, newCommandLine, type RunOptions, signIn } from './command_process.ts';

let server: TestServer;
let line: CommandLine;

before(async () => {
  line = newCommandLine();
  server = await start({ backupDirectories: line.directory });
  const write = (name: string, text: string) => writeFileSync(join(line.directory, name), text);
  await signIn(line, server);
  await server.client.databases.create({ name: 'shop' });
  const columns = [{ name: 'a', type: 'INT' }] as const;
  await server.client.databases('shop').tables.create({ name: 'there', columns }).done();
  write('rows.csv', 'a\n1\n');
  write('bad.yaml', 'kind: table\n  a: [\n');
  mkdirSync(join(line.directory, 'edited/tabularium'), { recursive: true });
  const profiles = { default: { url: 'nope', token: 'x', user: 'ada' } };
  write('edited/tabularium/profiles.json', JSON.stringify({ current: 'default', profiles }));
});
after(async () => {
  line.remove();
  await server.close();
});

const sql = (text: string): readonly string[] => ['sql', '-d', 'shop', '-c', text];
const unset = { XDG_CONFIG_HOME: '', TABULARIUM_URL: '', TABULARIUM_TOKEN: '' };

/** The command, its exit code, what it says, and the variables. */
const cases: readonly (readonly [readonly string[], number, RegExp, RunOptions['env']?])[] = [
  [
    sql('CREATE TABLE t (a INT)'),
    1,
    /: use POST [\s\S]*\nOn the command line: "tabularium tables create"; --help shows how/,
  ],
  [sql('CREATE USER ada'), 1, /^SQL_NOT_SUPPORTED: [\s\S]*"tabularium users create"; --help/],
  [sql('DROP ROLE analysts'), 1, /"tabularium roles delete"/],
  [sql('GRANT SELECT ON t TO ada'), 1, /"tabularium grants create"/],
  [sql('REVOKE SELECT ON t FROM ada'), 1, /"tabularium grants delete"/],
  [sql('SHOW TABLES'), 1, /"tabularium tables list" and "tabularium tables get"/],
  [sql("COPY t TO 'x.csv'"), 1, /"tabularium .*export" and "tabularium .*load"/],
  [sql('USE shop'), 1, /in a session, \\\? lists/],
  [sql('SELECT FROM WHERE'), 1, /\nCorrect the SQL at line 1 and column \d+\.\n$/],
  [['tables', 'get', 'shop.missing'], 1, /\n"tabularium tables list" shows which exist; --help says how\.\n$/],
  [['databases', 'create', 'shop'], 1, /^OBJECT_ALREADY_EXISTS: [\s\S]*give --if-exists return/],
  [
    ['load', 'rows.csv', '-d', 'shop', '-t', 'there', '--create'],
    1,
    /^OBJECT_ALREADY_EXISTS: .*\nChoose another name, or leave out --create\.\n$/,
  ],
  [
    ['load', 'rows.csv', '-d', 'shop', '-t', 'there', '--mode', 'upsert'],
    5,
    /^INVALID_PARAMETER: .*primary key\n(?: {2}\/mode: .*\n)?Correct (?!.*violations)/,
  ],
  [
    ['tables', 'list', '-d', 'shop', '--limit', 'abc'],
    2,
    /It is not a whole number from 1\.\n"tabularium tables list --help" shows/,
  ],
  [['tables', 'list', '-d', 'shop', '--limit', '-3'], 2, /It is not a whole number from 1/],
  [['tables', 'get'], 2, /missing required argument 'name'\n\n?"tabularium tables get --help" shows/],
  [['sql', '--formt', 'csv'], 2, /Did you mean --format\?\)\n\n?"tabularium sql --help" shows/],
  [['databases', 'list'], 4, /^UNAUTHENTICATED: [\s\S]*\n"tabularium login" signs in/, { TABULARIUM_TOKEN: 'wrong' }],
  [
    ['databases', 'list'],
    2,
    /^the url of the profile "default" in .*, "nope", is not the URL of a server: sign in/,
    { XDG_CONFIG_HOME: 'edited' },
  ],
  [['apply', 'missing.yaml'], 2, /^missing\.yaml cannot be read \(it does not exist: check the path/],
  [
    ['apply', 'bad.yaml'],
    2,
    /^bad\.yaml:1:7: this is not valid YAML: [\s\S]*correct the files and run the command again/,
  ],
  [
    ['openapi', 'lint', 'missing.json'],
    2,
    /^the file missing\.json cannot be read \(it does not exist: check the path/,
  ],
  [['openapi', 'lint', 'bad.yaml'], 2, /line 1, column 7; give an OpenAPI document\n$/],
  [['import', 'missing.duckdb', '-d', 'shop'], 2, /missing\.duckdb.*(does not exist|no such file)/i],
  [
    ['login', '--token-file', 'token'],
    1,
    /^\/proc\/.*cannot be written \(ENOENT\): make its directory writable/,
    { ...unset, HOME: '/proc' },
  ],
];

for (const [words, code, message, env] of cases)
  it(`${words.join(' ')}${env ? ` with ${Object.keys(env).join(', ')}` : ''}`, async () => {
    const all = words[0] === 'login' ? [...words, '--url', server.url] : words;
    const ended = await line.run(all, env ? { env } : {});
    assert.equal(ended.code, code, ended.stderr);
    assert.match(ended.stderr, message);
    assert.equal(ended.stdout, '');
    assert.doesNotMatch(ended.stderr, /\n {4}at |`result/);
  });

it('a server that is not there is named, with its URL', async () => {
  const listener = createServer();
  await once(listener.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
  await once(listener.close(), 'close');
  // It is not repeated, so that it does not wait for the server.
  const { code, stderr } = await line.run(['login', '--token-file', 'token', '--url', url]);
  assert.equal(code, 3, stderr);
  assert.ok(stderr.startsWith(`NO_ANSWER: POST ${url}/api/v2/users/identify: `), stderr);
});

it('a file in the place of the directory of a backup is what the message speaks of', async () => {
  const to = JSON.stringify({ path: join(line.directory, 'rows.csv') });
  const { code, stderr } = await line.run(['databases', 'backup', 'shop', '--to', to]);
  assert.equal(code, 5, stderr);
  assert.match(
    stderr,
    /^REMOTE_REFUSED: task \S+: the directory .* there is a file in .* \(E\w+\)\nCorrect the address, directory or .*s\.\n$/,
  );
});

it('a file that this user may not read is said to be one', () => {
  const error = Object.assign(new Error('EACCES'), { code: 'EACCES' });
  assert.match(unreadableBecause(error), /^this user may not read it: change its mode/);
});

it('a command runs without HOME', async () => {
  const listed = await line.run(['profiles'], { env: { XDG_CONFIG_HOME: '', HOME: undefined } });
  assert.equal(listed.code, 0, listed.stderr);
});

it('an endpoint that a message names is a command', () => {
  const named: readonly (readonly [string, readonly string[]])[] = [
    ['use POST .../tables/{table}/truncate to truncate', ['tables truncate']],
    ['use PATCH .../views/{view} and its actions', ['views update']],
    ['use POST .../databases; then DELETE .../databases/{database}', ['databases create', 'databases delete']],
    ['send POST /api/v2/audit_events/verify to it', ['audit-events verify']],
    ['use POST .../queries/{query}/cancel', ['queries cancel']],
    ['use POST .../nothing/{like}/this', []],
    ['use GET on the object', []],
  ];
  for (const [message, commands] of named) assert.deepEqual(commandsFor(message), commands, message);
});
