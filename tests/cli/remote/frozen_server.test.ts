// A server that does not answer, because it is frozen: Ctrl-C returns to the prompt and says what may go on, and completion lets one type.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { connect } from '../../../src/cli/remote/connection.ts';
import { unused } from '../../../src/cli/remote/program.ts';
import { NameCompletion } from '../../../src/cli/remote/sql/name_completion.ts';
import { eventually } from '../../deadline.ts';
import { type ServerProcess, startProcess } from '../../server.ts';
import { type CommandLine, newCommandLine, signIn } from './command_process.ts';
import { missingTerminal, openTerminal, type Terminal } from './terminal.ts';

async function listening(server: Server): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('a frozen server', { skip: missingTerminal }, () => {
  let server: ServerProcess;
  let line: CommandLine;
  let terminal: Terminal;

  before(async () => {
    line = newCommandLine();
    server = await startProcess([], join(line.directory, 'data'));
    await signIn(line, server);
    await server.client.databases.create({ name: 'shop' });
  });
  after(async () => {
    terminal?.close();
    server.child.kill('SIGCONT');
    await server.close();
    line.remove();
  });

  it('that streams a result: Ctrl-C says which task may still run', async () => {
    terminal = openTerminal(line, 'stream', ['sql', '-d', 'shop']);
    await terminal.shows(/Connected to http.* as root/);
    terminal.enter('SELECT range AS n FROM range(1000000000);');
    await terminal.shows(/^ *\d{4,}$/m);
    server.child.kill('SIGSTOP');
    terminal.press('C-c');
    await terminal.shows(/the server does not answer; task [-\w]+ may still run: "/);
    terminal.type('SELECT * FROM default.shop.purch');
    terminal.press('Tab');
    terminal.type('ases');
    await terminal.shows(/> SELECT \* FROM default\.shop\.purchases$/m);
    terminal.press('C-u');
    server.child.kill('SIGCONT');
    terminal.enter("SELECT 'it' || ' answers' AS a;");
    await terminal.shows(/^it answers$/m);
    const [, taskId = ''] = /tasks cancel ([-\w]+)"/.exec(terminal.screen().replaceAll('\n', '')) ?? [];
    assert.equal((await line.run(['tasks', 'cancel', taskId])).code, 0);
    terminal.close();
  });

  it('at the start of a session: Ctrl-C ends the command', async () => {
    const silent = createServer();
    const isAsked = once(silent, 'request');
    const url = await listening(silent);
    terminal = openTerminal(line, 'start', ['sql', '--url', url]);
    await isAsked;
    terminal.press('C-c');
    await terminal.shows(/exit code 130$/m);
    silent.closeAllConnections();
    silent.close();
  });
});

describe('the completion of names', () => {
  const requests: string[] = [];
  const waiting: (() => void)[] = [];
  const slow = createServer((request, response) => {
    requests.push(request.url ?? '');
    waiting.push(() => {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ code: '0', message: '', result: { columns: [{ name: 'weight' }] } }));
    });
  });
  let completion: NameCompletion;
  before(async () => {
    const url = await listening(slow);
    const options = { catalog: 'default', database: 'shop' };
    completion = new NameCompletion({ connection: connect({ url }, {}), runtime: unused, options, isEnded: false });
  });
  after(() => {
    completion.end();
    slow.closeAllConnections();
    slow.close();
  });

  it('has one deadline: nothing is read after it', async () => {
    assert.deepEqual(await completion.complete('SELECT 1 FROM boxes b WHERE b.'), [[], '']);
    assert.deepEqual(requests, ['/api/v2/catalogs/default/databases/shop/tables/boxes']);
  });

  it('has what came too late at the next time', async () => {
    for (const answer of waiting) answer();
    await eventually('the column is offered', async () => {
      const [names] = await completion.complete('SELECT 1 FROM boxes b WHERE b.');
      return names.join() === 'weight';
    });
    assert.equal(requests.length, 1);
  });
});
