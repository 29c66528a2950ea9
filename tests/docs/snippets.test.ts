// Every fenced block of the README and of docs/ is executed in the order of its document, against one real server, which is emptied after each
// document; or it is listed in code_blocks.ts with the reason why not. The example calls of the generated reference are checked without
// sending them.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { exampleCalls } from '../../scripts/documentation/reference.ts';
import { type Client, describeCall } from '../../src/client/index.ts';
import { categoriesWith } from '../../src/resources/index.ts';
import { actionOf } from '../../src/standard/endpoint.ts';
import { parametersOf } from '../../src/standard/parameters.ts';
import { Routes } from '../../src/standard/paths.ts';
import { deadlineMs } from '../deadline.ts';
import { type ObjectStoreServer, startObjectStore } from '../outbound/object_store_server.ts';
import { startProcess, type TestServer } from '../server.ts';
import { blocksOf, type CodeBlock, documents, exceptionOf, notExecuted } from './code_blocks.ts';
import { requireOutput, requireShown, shownIn } from './expected_answers.ts';
import { openShell, type Shell } from './pasting.ts';

const root = resolve(import.meta.dirname, '../..');

describe('the blocks of the documents', () => {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-documents-'));
  /** By what the documents call them. */
  const directories: Readonly<Record<string, string>> = {
    '/data/incoming': join(directory, 'incoming'),
    '/srv/backups': join(directory, 'backups'),
  };
  let server: TestServer;
  let stores: ObjectStoreServer[];
  before(async () => {
    for (const path of Object.values(directories)) mkdirSync(join(path, 'shop'), { recursive: true });
    stores = await Promise.all(['exports', 'backups'].map((bucket) => startObjectStore(bucket)));
    server = await startProcess([
      `--load-directories=${directories['/data/incoming']}`,
      `--backup-directories=${directories['/srv/backups']}`,
      '--export-hosts=127.0.0.1',
      '--load-hosts=127.0.0.1',
    ]);
  });
  after(async () => {
    await Promise.all([server?.close(), ...(stores ?? []).map((store) => store.close())]);
    rmSync(directory, { recursive: true, force: true });
  });

  const storeOf = (document: string) => (document === 'docs/backup.md' ? stores[1] : stores[0]) as ObjectStoreServer;

  /** The text with the directories and the object store of the test. */
  function here(text: string, document: string): string {
    const { endpoint, secretAccessKey } = storeOf(document);
    let own = text.replaceAll('https://s3.example.com', endpoint).replaceAll('…', secretAccessKey);
    for (const [shown, path] of Object.entries(directories)) own = own.replaceAll(shown, path);
    return own;
  }

  async function paste(shell: Shell, { document, text, shown }: CodeBlock): Promise<string> {
    const { output, answers, failures } = await shell.paste(here(text, document));
    assert.equal(failures, 0, `${document}: a command failed: ${text}${output}`);
    if (shown !== undefined && /curl/.test(text)) requireOutput(output, shown, text);
    else {
      const expected = shownIn(text);
      assert.equal(answers.length, expected.length, `${text}${output}`);
      for (const [i, answer] of answers.entries()) requireShown(answer, expected[i] as (typeof expected)[number], text);
      await requireSuccess();
    }
    return output;
  }

  /** Later blocks can depend on tasks of earlier ones. */
  async function requireSuccess(): Promise<void> {
    const { result } = await server.get('/api/v2/tasks?pageSize=1000');
    for (const { uri } of result.tasks as { readonly uri: string }[]) {
      const task = await server.get(`${uri}?waitSeconds=30`);
      assert.equal(task.at('state'), 'succeeded', task.text);
    }
  }

  /** Each statement is one line; the comment lines below it are its rows, or its code. */
  async function runStatements({ text }: CodeBlock): Promise<void> {
    for (const [, sql = '', comments = ''] of text.matchAll(/^((?!--).*?)\n((?:--.*\n)+|$|(?=\S))/gm)) {
      if (sql === '') continue;
      const shown = comments.split('\n').flatMap((line) => (line === '' ? [] : [line.replace(/^-- */, '')]));
      const answer = await server.send('POST', '/api/v2/databases/shop/query', { body: { sql } });
      const { code } = JSON.parse(answer.text) as { code: string };
      if (/^[A-Z_]+$/.test(shown[0] ?? '')) assert.equal(code, shown[0], `${sql}: ${answer.text}`);
      else {
        assert.equal(code, '0', `${sql}: ${answer.text}`);
        assert.ok(
          answer.text.includes(shown.length > 0 ? `"rows":[${shown.join(',')}]` : ''),
          `${sql}: ${answer.text}`,
        );
      }
    }
  }

  /** The snippets of a document are one program, which compiles against the types of the client. */
  async function runProgram(snippets: readonly CodeBlock[]): Promise<string> {
    // Inside the project, for the types of Node.js.
    const programDirectory = mkdtempSync(join(root, '.client-snippets-'));
    try {
      const program = snippets
        .map(({ text }) => text)
        .join('\n')
        .replace("'tabularium/client'", "'../src/client/index.ts'")
        .replace('http://127.0.0.1:8030', server.url);
      const file = join(programDirectory, 'snippets.ts');
      writeFileSync(file, program);
      const project = join(programDirectory, 'tsconfig.json');
      writeFileSync(project, JSON.stringify({ extends: '../tsconfig.json', include: ['snippets.ts'] }));
      const timeout = deadlineMs(60_000);
      execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', project], {
        timeout,
        stdio: 'inherit',
      });
      const env = { ...process.env, TOKEN: server.token };
      return (await promisify(execFile)(process.execPath, [file], { env, timeout })).stdout;
    } finally {
      rmSync(programDirectory, { recursive: true });
    }
  }

  const query = async (path: string, sql: string) =>
    (await server.post(`/api/v2/catalogs/${path}/query`, { sql })).is(200).at<unknown[][]>('rows');

  const setups: Readonly<Record<string, () => unknown>> = {
    'docs/api.md': () => {
      const orders = 'id,when,remark\n3,2026-01-31T10:00:00,late\n4,2026-01-31T11:00:00,by post\n';
      writeFileSync(join(directories['/data/incoming'] as string, 'orders.csv.gz'), gzipSync(orders));
    },
    'docs/backup.md': async () => {
      await server.client.catalogs.create({ name: 'shop' });
      await server.client.catalogs('shop').databases.create({ name: 'sales' });
      const columns = [{ name: 'id', type: 'BIGINT' }];
      await server.client.catalogs('shop').databases('sales').tables.create({ name: 'orders', columns }).done();
      await query('shop/databases/sales', 'INSERT INTO orders SELECT range FROM range(10)');
    },
  };

  /** What the blocks of a document together have done; `output`: of its shell, then of its program. */
  const checks: Readonly<Record<string, (output: string) => unknown>> = {
    'docs/api.md': async () =>
      assert.deepEqual(await query('default/databases/shop', 'SELECT id, note FROM orders ORDER BY id'), [
        [1, 'by phone'],
        [2, 'urgent!'],
        [3, 'LATE'],
        [4, 'BY POST'],
      ]),
    'docs/backup.md': async (output) => {
      for (const path of ['shop_of_monday/databases/sales', 'default/databases/sales_of_monday'])
        assert.deepEqual(await query(path, 'SELECT count(*) FROM orders'), [[10]]);
      // The directory of the backups has one, and so has the object store.
      const verified =
        /^intact \S+ \S+ catalog "shop": 1 tables, 10 rows, \d+ files, \d+ bytes\nAll files exist and are unchanged\.$/gm;
      assert.equal(output.match(verified)?.length, 2, output);
    },
    'docs/client.md': (output) => {
      for (const line of [
        '/api/v2/catalogs/default/databases/shop/tables/orders All orders 2',
        '1n 9.50',
        '2n 20.00',
        'ARROW1',
      ])
        assert.ok(output.split('\n').includes(line), output);
      assert.match(output, /^succeeded 1$/m);
      assert.match(output, /^OBJECT_NOT_FOUND notApplied false \S+$/m);
    },
  };

  /** As it was at the start, except for tasks and history. */
  async function emptyServer(): Promise<void> {
    const { client } = server;
    for (const { name } of await client.schedules.list().all()) await client.schedules(name).delete();
    for (const { name } of await client.savedQueries.list().all()) await client.savedQueries(name).delete();
    for (const { name } of await client.roles.list().all()) await client.roles(name).delete();
    for (const { name } of await client.users.list().all()) if (name !== 'root') await client.users(name).delete();
    for (const { name } of await client.databases.list().all())
      await client.databases(name).delete({ cascade: true, purge: true });
    for (const { name } of await client.catalogs.list().all())
      if (name !== 'default') await client.catalogs(name).delete({ cascade: true, purge: true });
  }

  for (const document of documents) {
    const blocks = blocksOf(document).filter((block) => block.language !== 'text' && !exceptionOf(block));
    if (blocks.length === 0) continue;
    it(`are executed: ${document}`, async (t) => {
      await setups[document]?.();
      const shell = openShell(t, server, {
        URL: server.url,
        AUTH: `Authorization: Bearer ${server.token}`,
        JSON: 'Content-Type: application/json',
      });
      await shell.paste(`tabularium() { '${process.execPath}' '${join(root, 'src/main.ts')}' "$@"; }`);
      const outputs: string[] = [];
      for (const block of blocks) {
        if (block.language === 'sh') outputs.push(await paste(shell, block));
        else if (block.language === 'sql') await runStatements(block);
        else if (block.language === 'json') JSON.parse(block.text);
        else
          assert.equal(
            block.language,
            'ts',
            `${document}:${block.line}: nothing executes this block, and no reason is listed`,
          );
      }
      const program = blocks.filter(({ language }) => language === 'ts');
      if (program.length > 0) outputs.push(await runProgram(program));
      await checks[document]?.(outputs.join('\n'));
      await emptyServer();
    });
  }

  it('are left out only for a reason that still applies', () => {
    const all = documents.flatMap(blocksOf);
    for (const exception of notExecuted)
      assert.ok(
        all.some((block) => exceptionOf(block) === exception),
        `${exception.document} has no block that begins with "${exception.start}"`,
      );
  });
});

it('each operation of the reference has a call whose curl and code send the same valid request', () => {
  const routes = new Routes(categoriesWith({ rowsBodyBytesMax: 1 }));
  assert.ok(exampleCalls.length > 150, `${exampleCalls.length} calls`);
  for (const { id, call } of exampleCalls) {
    const { method, path, body, code } = call;
    const [pathname = ''] = path.split('?');
    const { endpoint, category } = routes.resolve(method, pathname);
    const operation = actionOf(endpoint);
    assert.ok(id.endsWith(`.${operation}`) && id.includes(category.name), `${id}: ${method} ${path}`);
    if (body !== undefined) parametersOf(endpoint).checkBody?.(body);
    const typed = new Function('client', `return ${code}`) as (client: Client) => { page?: () => unknown };
    const again = describeCall((client) => {
      const answer = typed(client);
      return method === 'GET' || answer?.page !== undefined ? (answer.page?.() ?? answer) : answer;
    });
    assert.deepEqual([again.method, again.path, JSON.stringify(again.body)], [method, path, JSON.stringify(body)], id);
  }
});
