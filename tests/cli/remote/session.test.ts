// The interactive session of `sql` in a real terminal (tmux): statements of several lines, completion, history, cancelling, and a server
// that is lost and returns.
import assert from 'node:assert/strict';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { eventually } from '../../deadline.ts';
import { type ServerProcess, startProcess } from '../../server.ts';
import { type CommandLine, newCommandLine } from './command_process.ts';
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
  writeFileSync(join(line.directory, 'token'), server.token);
  assert.equal((await line.run(['login', '--url', server.url, '--token-file', 'token'])).code, 0);
  await server.client.databases.create({ name: 'shop' });
  const columns = [{ name: 'customer', type: 'STRING' }];
  await server.client.databases('shop').tables.create({ name: 'purchases', columns }).done();
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

test('shortcuts', { skip }, async () => {
  enter('\\d purchases');
  await shows(/customer │ STRING/);
  enter('\\dx');
  await shows(/\\dx is not known; \\\? lists what is/);
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

test('the history survives the session, in a file that only the user can read', { skip }, async () => {
  const file = join(line.directory, 'config/tabularium/history');
  assert.match(readFileSync(file, 'utf8'), /^SELECT count\(\*\) AS counted FROM purchases;$/m);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  press('Up');
  await shows(/> SELECT 'next' \|\| ' one' AS after;\s*$/);
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
