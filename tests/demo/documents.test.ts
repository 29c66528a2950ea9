// The commands of docs/api.md and docs/backup.md, pasted block by block into one shell against a server with the settings that they
// assume: each curl responds with the code and the fields that the document shows below it, or else succeeds, and each task
// succeeds.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { startObjectStore } from '../outbound/object_store_server.ts';
import { startProcess, type TestServer } from '../server.ts';
import { type Answer, blocksOf, openShell, textOf } from './pasting.ts';

interface Shown {
  readonly code: string;
  /** The names of fields, at any depth. */
  readonly fields: readonly string[];
}

const fieldsIn = (text: string): string[] => [...text.matchAll(/"(\w+)":/g)].map(([, name]) => name as string);

/** The expected result of each curl of a block, in order: comments below a curl are its response. */
function shownIn(block: string): Shown[] {
  const curls: string[] = [];
  for (const line of block.split('\n')) {
    if (/^#/.test(line)) curls.push(`${curls.pop()}${line.replace(/^# */, '')}`);
    else if (/(?:^|\()curl /.test(line)) curls.push('');
  }
  return curls.map((text) => ({ code: /"code":"(\w+)"/.exec(text)?.[1] ?? '0', fields: fieldsIn(text) }));
}

/** A file is returned as it is, with a status and no code. */
function requireShown({ status, body }: Answer, { code, fields }: Shown, block: string): void {
  const got = body.startsWith('{"code"') ? (JSON.parse(body) as { code: string }).code : status === 200 ? '0' : status;
  assert.equal(got, code, `${block}${body}`);
  const shownFields = new Set(fieldsIn(body));
  assert.deepEqual(
    fields.filter((field) => !shownFields.has(field)),
    [],
    `fields that the document shows and the answer has not: ${block}${body}`,
  );
}

/** Later blocks can depend on tasks of earlier ones. Returns the number of tasks. */
async function requireSuccess(server: TestServer): Promise<number> {
  const { result } = await server.get('/api/v2/tasks?pageSize=1000');
  const tasks = result.tasks as { readonly uri: string }[];
  for (const { uri } of tasks) {
    const task = await server.get(`${uri}?waitSeconds=30`);
    assert.equal(task.at('state'), 'succeeded', task.text);
  }
  return tasks.length;
}

interface Surroundings {
  readonly server: TestServer;
  /** The location of a path in the document. */
  readonly directory: string;
  readonly pasteAll: () => Promise<{ readonly curls: number; readonly outputs: readonly string[] }>;
}

/** `path` and `bucket` are those in the document. */
async function around(
  t: TestContext,
  { document, path, bucket }: { readonly document: string; readonly path: string; readonly bucket: string },
): Promise<Surroundings> {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-documents-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const store = await startObjectStore(bucket);
  t.after(() => store.close());
  const here = (text: string): string =>
    text
      .replaceAll(path, directory)
      .replaceAll('https://s3.example.com', store.endpoint)
      .replaceAll('s3.example.com', new URL(store.endpoint).hostname)
      .replaceAll('…', store.secretAccessKey);
  const text = textOf(document);
  const flags = /^tabularium (--.*)$/m.exec(text)?.[1] ?? `--load-directories ${path} --export-hosts s3.example.com`;
  const server = await startProcess(
    here(flags)
      .split(/ (?=--)/)
      .map((flag) => flag.replace(' ', '=')),
  );
  t.after(() => server.close());
  const shell = openShell(t, server, {
    URL: server.url,
    AUTH: `Authorization: Bearer ${server.token}`,
    JSON: 'Content-Type: application/json',
  });
  const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
  await shell.paste(`tabularium() { '${process.execPath}' '${main}' "$@"; }`);
  const pasteAll = async () => {
    const outputs: string[] = [];
    let curls = 0;
    for (const block of blocksOf(text).filter((candidate) => /^(?:.*\bcurl|tabularium backup) /m.test(candidate))) {
      const { output, answers } = await shell.paste(here(block));
      const shown = shownIn(block);
      assert.equal(answers.length, shown.length, block);
      for (const [i, answer] of answers.entries()) requireShown(answer, shown[i] as Shown, block);
      await requireSuccess(server);
      curls += answers.length;
      outputs.push(output);
    }
    return { curls, outputs };
  };
  return { server, directory, pasteAll };
}

/** What is referred to by name in the pasted commands of a document. */
const curlsIn = (document: string): number => textOf(document).match(/\bcurl -/g)?.length ?? 0;

test('the commands of docs/api.md respond as it says', async (t) => {
  const document = 'docs/api.md';
  const { server, directory, pasteAll } = await around(t, { document, path: '/data/incoming', bucket: 'exports' });
  const orders = 'id,when,remark\n3,2026-01-31T10:00:00,late\n4,2026-01-31T11:00:00,by post\n';
  writeFileSync(join(directory, 'orders.csv.gz'), gzipSync(orders));
  const { curls } = await pasteAll();
  assert.equal(curls, curlsIn(document));
  const rows = await server.rows('shop', 'SELECT id, note FROM orders ORDER BY id');
  assert.deepEqual(rows, [
    [1, 'by phone'],
    [2, 'urgent!'],
    [3, 'LATE'],
    [4, 'BY POST'],
  ]);
  assert.ok((await requireSuccess(server)) >= 5);
});

test('the commands of docs/backup.md respond as it says', async (t) => {
  const document = 'docs/backup.md';
  const { server, directory, pasteAll } = await around(t, { document, path: '/srv/backups', bucket: 'backups' });
  mkdirSync(join(directory, 'shop'), { recursive: true });
  await server.client.catalogs.create({ name: 'shop' });
  await server.client.catalogs('shop').databases.create({ name: 'sales' });
  const columns = [{ name: 'id', type: 'BIGINT' }];
  await server.client.catalogs('shop').databases('sales').tables.create({ name: 'orders', columns }).done();
  const sql = 'INSERT INTO orders SELECT range FROM range(10)';
  (await server.post('/api/v2/catalogs/shop/databases/sales/query', { sql })).is(200);
  const { curls, outputs } = await pasteAll();
  assert.equal(curls, curlsIn(document));
  for (const catalog of ['shop_of_monday/databases/sales', 'default/databases/sales_of_monday']) {
    const answer = await server.post(`/api/v2/catalogs/${catalog}/query`, { sql: 'SELECT count(*) FROM orders' });
    assert.deepEqual(answer.is(200).at('rows'), [[10]]);
  }
  // The directory of the backups has one, and so has the object store.
  const verified =
    /^whole {2}\S+ \S+ catalog "shop": 1 tables, 10 rows, \d+ files, \d+ bytes\nAll files exist and are unchanged\.$/gm;
  assert.equal(outputs.join('\n').match(verified)?.length, 2);
});
