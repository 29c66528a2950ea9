// Every command that follows from a declaration: its help, the example in it, which makes the call that the declaration describes, and its
// completion.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { categoriesApi } from '../../../src/api/categories.ts';
import type { DeclaredCategory, DeclaredEndpoint } from '../../../src/api/declare.ts';
import { CommandError, exitCodes } from '../../../src/cli/exit_codes.ts';
import type { Runtime } from '../../../src/cli/remote/call_options.ts';
import { commandName, exampleLine } from '../../../src/cli/remote/examples.ts';
import type { Output } from '../../../src/cli/remote/output/output.ts';
import { allCommands, newProgram, unused } from '../../../src/cli/remote/program.ts';
import { clientOver } from '../../../src/client/client.ts';
import type { Answer, Outgoing, Transport } from '../../../src/client/transport.ts';
import { categoriesWith } from '../../../src/resources/index.ts';
import { isPaged, nameFieldOf } from '../../../src/standard/endpoint.ts';
import { Routes } from '../../../src/standard/paths.ts';
import { validation } from '../../../src/standard/validation.ts';

const routes = new Routes(categoriesWith({ rowsBodyBytesMax: 1 }));
const operations = categoriesApi.flatMap((category: DeclaredCategory) =>
  Object.entries(category.endpoints).map(([operation, endpoint]) => ({ category, operation, endpoint })),
);

/** The words of a line as a shell splits them: plain ones, and ones in single quotes. */
function wordsIn(line: string): string[] {
  return [...line.matchAll(/(?:'((?:[^']|'\\'')*)'|(\S+))/g)].map(([, quoted, plain]) =>
    quoted === undefined ? (plain as string) : quoted.replaceAll(`'\\''`, "'"),
  );
}

/** Runs a line without a server. @returns the request that it sends, and what it writes. */
async function requestOf(line: string): Promise<{ sent: Outgoing; written: string }> {
  const sent: Outgoing[] = [];
  let written = '';
  const sender = {
    async send(outgoing: Outgoing): Promise<Answer> {
      sent.push(outgoing);
      return { status: 200, result: {} };
    },
    download: () => Promise.reject(new Error('nothing is downloaded')),
  };
  const output: Output = {
    async write(text) {
      written += String(text);
    },
    note: () => undefined,
    isTerminal: false,
    isInteractive: false,
    columns: 100,
    style: (_format, text) => text,
  };
  const runtime: Runtime = {
    connect: () => ({
      url: '',
      token: undefined,
      client: clientOver(sender),
      transport: sender as unknown as Transport,
    }),
    output: () => output,
    signal: new AbortController().signal,
  };
  const program = await newProgram({}, runtime);
  for (const command of allCommands(program)) command.exitOverride().configureOutput({ writeErr: () => undefined });
  const [first, ...words] = wordsIn(line);
  assert.equal(first, 'tabularium');
  await program.parseAsync(words, { from: 'user' });
  assert.equal(sent.length, 1, line);
  return { sent: sent[0] as Outgoing, written };
}

describe('the example of each command', () => {
  for (const { category, operation, endpoint } of operations as readonly {
    category: DeclaredCategory;
    operation: string;
    endpoint: DeclaredEndpoint;
  }[]) {
    const line = exampleLine(category, operation);
    it(line.slice(0, 100), async () => {
      const { sent } = await requestOf(line);
      const route = routes.resolve(sent.method, sent.path.split('?', 1)[0] as string);
      assert.deepEqual([route.category.name, route.endpoint.verb], [category.name, endpoint.verb]);
      if (endpoint.verb === 'action') assert.equal(route.endpoint.action, endpoint.action ?? operation);
      if (!endpoint.body || !endpoint.example?.body) return;
      const isNamed = endpoint.verb === 'create' && endpoint.named !== false;
      const schema = validation().Compile(endpoint.body);
      const { [nameFieldOf(endpoint)]: name, ...unnamed } = sent.body as Record<string, unknown>;
      const fields = isNamed ? unnamed : (sent.body as Record<string, unknown>);
      const { expectedVersion: _version, ...declared } = fields;
      const [isValid, errors] = schema.Errors(declared);
      assert.ok(isValid || isNamed, JSON.stringify(errors));
      const { pageToken: _token, ...expected } = endpoint.example.body as Record<string, unknown>;
      assert.deepEqual(
        JSON.parse(JSON.stringify({ ...(name === undefined ? {} : { [nameFieldOf(endpoint)]: name }), ...fields })),
        expected,
      );
    });
  }
});

it('every operation has a command with a help of its own', async () => {
  const program = await newProgram(
    {},
    { connect: () => assert.fail(), output: () => assert.fail(), signal: new AbortController().signal },
  );
  for (const { category, operation, endpoint } of operations) {
    const of = program.commands.find((command) => command.name() === commandName(category.name));
    const command = of?.commands.find((each) => each.name() === commandName(operation));
    assert.ok(command, `${category.name} ${operation}`);
    const help = command.helpInformation();
    const start = (text: string) => text.split(' ').slice(0, 3).join(' ');
    assert.match(
      help.replaceAll(/\s+/g, ' '),
      new RegExp(start(endpoint.summary).replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')),
    );
    for (const name of Object.keys(endpoint.body?.properties ?? {}))
      if (name !== 'pageToken' && !(endpoint.verb === 'create' && name === nameFieldOf(endpoint as DeclaredEndpoint)))
        assert.match(help, new RegExp(`--(set-)?${commandName(name)}\\b`), `${category.name} ${operation} ${name}`);
  }
});

it('fields are sent with their types, and `--no-` removes a value', async () => {
  const update = await requestOf(
    "tabularium tables update orders --database shop --comment 'a b' --no-owner --properties '{\"a\":null}'",
  ).catch((error: Error) => error);
  assert.ok(update instanceof Error, 'the owner cannot be removed');
  const { sent } = await requestOf(`tabularium tables update shop.orders --comment 'a b' --properties '{"a":null}'`);
  assert.deepEqual([sent.method, sent.path], ['PATCH', '/api/v2/catalogs/default/databases/shop/tables/orders']);
  assert.deepEqual(sent.body, { comment: 'a b', properties: { a: null } });
  const removed = await requestOf('tabularium tables update "default"."shop"."or.ders" --no-comment');
  assert.equal(removed.sent.path, '/api/v2/catalogs/default/databases/shop/tables/or.ders');
  assert.deepEqual(removed.sent.body, { comment: null });
  const limits = await requestOf('tabularium warehouses update default --queries-max 8 --no-auto-resume');
  assert.deepEqual(limits.sent.body, { queriesMax: 8, autoResume: false });
  const key = await requestOf(
    'tabularium tables create t --database d --primary-key id,part --if-exists return --columns []',
  );
  assert.deepEqual([key.sent.method, key.sent.body], ['PUT', { name: 't', primaryKey: ['id', 'part'], columns: [] }]);
  const exact = await requestOf(
    `tabularium tables update t --database d --body '{"properties":{"n":"1"},"expectedVersion":9007199254740993}'`,
  );
  assert.match(JSON.stringify(exact.sent.body), /9007199254740993/);
});

describe('what is no name is refused before a request is sent', () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ["tabularium tasks watch ''", /^the taskId of the task is empty: give it/],
    ["tabularium tasks cancel ''", /^the taskId of the task is empty: give it/],
    ['tabularium tables delete .. --database shop', /^the name of the table must not be "\.\."/],
    ['tabularium tables delete shop..orders', /^the name of the database is empty: give it/],
    ['tabularium tables list --database .', /^the name of the database must not be "\."/],
    ['tabularium load - - --name x.csv -d shop -t t', /^the standard input can be given once/],
  ];
  for (const [line, message] of cases)
    it(line, async () => {
      await assert.rejects(requestOf(line), (error: Error) => {
        assert.ok(error instanceof CommandError, String(error));
        assert.match(error.message, message);
        return error.exitCode === exitCodes.usage.code;
      });
    });
});

it('lists are read page by page, and a list of tasks has the columns of its record', async () => {
  const { sent, written } = await requestOf('tabularium tasks list --format csv');
  assert.equal(sent.path, '/api/v2/tasks');
  assert.match(written, /^taskId,type,state,/);
  assert.ok(operations.some(({ endpoint }) => isPaged(endpoint)));
});

/** They print what a program reads as it is. */
const withoutJson = new Set(['serve', 'completion']);

const program = await newProgram({}, unused);

describe('each command', () => {
  const leaves = allCommands(program).filter(({ commands }) => commands.length === 0);
  for (const command of leaves) {
    const above = command.parent === program ? [] : [command.parent?.name() ?? ''];
    const name = [...above, command.name()].join(' ');
    it(`"${name}" has one style of help, with examples and --json`, () => {
      let help = '';
      command.configureOutput({ writeOut: (text) => (help += text), getOutHelpWidth: () => 100 }).outputHelp();
      assert.match(help, new RegExp(`^Usage: tabularium ${name} \\[options\\]`));
      assert.match(help, new RegExp(`\\nExamples?:\\n {2}(?:.* )?.*tabularium ${name}\\b`));
      assert.match(help, /\nExit codes: "tabularium --help" lists them\.\n$/);
      assert.notEqual(command.description(), '');
      for (const { description, flags } of command.options) assert.notEqual(description, '', flags);
      assert.equal(/^ +--json /m.test(help), !withoutJson.has(name));
    });
  }
});

describe('each group of commands', () => {
  for (const command of allCommands(program).filter(({ commands }) => commands.length > 0))
    it(`"${command.name()}" has the style of help of its commands`, () => {
      const help = command.helpInformation();
      assert.match(help, / {2}-h, --help +show this help\n/);
      assert.doesNotMatch(help, /display help/);
    });
});
