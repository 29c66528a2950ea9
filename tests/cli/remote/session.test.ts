// The interactive session of `sql` in a real terminal (tmux): statements of several lines, completion, history, cancelling, and a server
// that is lost and returns.
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { deadlineMs, eventually } from '../../deadline.ts';
import { type ServerProcess, startProcess } from '../../server.ts';
import { type CommandLine, newCommandLine, signIn } from './command_process.ts';
import { scrollResult } from './large_result.ts';
import { missingTerminal, openTerminal, type Terminal } from './terminal.ts';

const skip = missingTerminal;

let server: ServerProcess;
let line: CommandLine;
let terminal: Terminal;
const type = (text: string) => terminal.type(text);
const press = (...keys: readonly string[]) => terminal.press(...keys);
const enter = (text: string) => terminal.enter(text);
const shows = (pattern: RegExp) => terminal.shows(pattern);

before(async () => {
  if (skip) return;
  line = newCommandLine();
  server = await startProcess([], join(line.directory, 'data'));
  await signIn(line, server);
  await server.client.databases.create({ name: 'shop' });
  const columns = [{ name: 'customer', type: 'STRING' }];
  await server.client.databases('shop').tables.create({ name: 'purchases', columns }).done();
  await server.client.databases.create({ name: 'My Shop' });
  const boxes = [{ name: 'weight', type: 'DOUBLE' }];
  await server.client.databases('My Shop').tables.create({ name: 'boxes', columns: boxes }).done();
  await server.client
    .databases('shop')
    .views.create({ name: 'buyers', sql: 'SELECT customer AS buyer FROM purchases' });
  terminal = openTerminal(line, 'session', ['sql', '-d', 'shop']);
  await shows(/Connected to http.* as root/);
});
after(async () => {
  if (skip) return;
  terminal?.close();
  await server.close();
  line.remove();
});

test('a statement of several lines, with names that are completed', { skip }, async () => {
  enter('SELECT count(*) AS counted');
  await shows(/\.\.\.>\s*$/);
  type('FROM purch');
  press('Tab');
  await shows(/FROM purchases/);
  enter(';');
  await shows(/counted\n─+\n +0\n\(1 row\)/);
});

test('names of earlier lines, of views, of other databases and catalogs, and in quotes are completed', {
  skip,
}, async () => {
  enter('FROM buyers');
  type('SELECT buy');
  press('Tab');
  await shows(/\.\.\.> SELECT buyer?$/m);
  press('C-c');
  const completions: readonly (readonly [string, RegExp])[] = [
    ['SELECT * FROM "My', /FROM "My Shop"$/m],
    ['SELECT * FROM "My Shop".bo', /"My Shop"\.boxes$/m],
    ['SELECT * FROM defau', /FROM default$/m],
    ['SELECT * FROM default.sho', /default\.shop$/m],
    ['\\c "My', /\\c "My Shop"$/m],
    ['\\format vert', /\\format vertical$/m],
  ];
  for (const [typed, completed] of completions) {
    type(typed);
    press('Tab');
    await shows(completed);
    press('C-u');
  }
});

test('shortcuts', { skip }, async () => {
  enter('\\d purchases');
  await shows(/customer │ STRING/);
  enter('\\d "default"."My Shop".boxes');
  await shows(/weight │ DOUBLE/);
  enter('\\dx');
  await shows(/\\dx is not known; \\\? lists what is/);
  enter('\\x');
  enter('SELECT 5 AS five, 6 AS six;');
  await shows(/^row 1\nfive {2}5\nsix {3}6$/m);
  enter('\\x');
  enter('\\timing');
  enter("SELECT 'with' || ' time' AS t;");
  await shows(/^with time\n\(1 row\)\n\d+ ms$/m);
  enter('\\timing');
  enter('help');
  await shows(/Ctrl-C +cancels the statement that runs/);
});

test('Ctrl-C cancels the statement that runs, and discards the one that is written', { skip }, async () => {
  enter('SELECT count(*) FROM range(100000000000) a, range(1000) b;');
  await eventually('it runs', async () => (await server.client.warehouses('default').get()).runningQueries > 0);
  press('C-c');
  await shows(/^cancelled$/m);
  await eventually('it has ended', async () => (await server.client.warehouses('default').get()).runningQueries === 0);
  type('SELECT discarded');
  press('C-c');
  enter("SELECT 'next' || ' one' AS after;");
  await shows(/^next one$/m);
});

test('Ctrl-C in the middle of the rows cancels at the engine', { skip }, async () => {
  const sql = 'SELECT range AS n FROM range(1000000000)';
  enter(`${sql};`);
  await shows(/^ *\d{5,}$/m);
  press('C-c');
  enter("SELECT 'still' || ' usable' AS state;");
  await shows(/^still usable$/m);
  const states = async () => {
    const all = await server.client.queries.search({}).all();
    return all.filter((query) => query.sql === sql).map(({ state }) => state);
  };
  await eventually('the statement is cancelled', async () => (await states()).join() === 'cancelled');
});

test('a result of many rows scrolls in bounded memory', { skip }, async () => {
  await scrollResult(terminal, 150_000, deadlineMs(30_000));
});

test('the history survives the session, in a file that only the user can read', { skip }, async () => {
  const file = join(line.directory, 'config/tabularium/history');
  enter("SELECT 'x' AS my_password;");
  await shows(/^my_password$/m);
  enter(" SELECT 'begins with' || ' a space' AS s;");
  await shows(/^begins with a space$/m);
  enter("SELECT 'last' || -- comment");
  enter("' one' AS s;");
  await shows(/^last one$/m);
  const history = readFileSync(file, 'utf8');
  assert.match(history, /^SELECT count\(\*\) AS counted FROM purchases ?;$/m);
  assert.doesNotMatch(history, /my_password|a space/);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  press('Up');
  await shows(/> SELECT 'last' \|\| \/\* comment \*\/ ' one' AS s;$/m);
  press('C-u');
  enter('exit');
  await shows(/^exit code 0$/m);
  terminal.close();
  terminal = openTerminal(line, 'second', ['sql', '-d', 'shop']);
  await shows(/Connected to http.* as root/);
  press('Up');
  await shows(/> SELECT 'last' \|\| \/\* comment \*\/ ' one' AS s;$/m);
  press('C-u');
});

test('a statement that is sent while the server is lost is answered when it returns', { skip }, async () => {
  const { port } = new URL(server.url);
  server.child.kill('SIGKILL');
  await server.exited;
  enter("SELECT 'it is' || ' back' AS state;");
  server = await startProcess([`--port=${port}`], join(line.directory, 'data'));
  await shows(/^it is back$/m);
});
