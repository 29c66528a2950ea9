// Pages are read while they are sent: the file of the result may be removed between the two, when its statement fails.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { PageBytes } from '../../src/query/results/page_bytes.ts';
import { concatenate } from '../../src/standard/record_body.ts';

const directory = mkdtempSync(join(tmpdir(), 'tabularium-pages-'));
after(() => rmSync(directory, { recursive: true, force: true }));

const rows = Array.from({ length: 100_000 }, (_, i) => `[${i}]`).join(',\n');

test('a page that was found is read although its file has been removed since', async () => {
  const path = join(directory, 'removed');
  writeFileSync(path, `${rows},\n`);
  const page = await PageBytes.find([path], 0, rows.length + 2);
  rmSync(path);
  assert.equal(page.byteLength, rows.length);
  assert.equal(Buffer.from(await concatenate([page])).toString(), rows);
  await assert.rejects(concatenate([page]), { code: 'RESULT_EXPIRED' });
});

test('a page is read again where its file has been moved to', async () => {
  const [path, savedPath] = [join(directory, 'spool'), join(directory, 'saved')];
  writeFileSync(savedPath, rows);
  assert.ok(!existsSync(path));
  const page = await PageBytes.find([path, savedPath], 0, rows.length);
  for (let i = 0; i < 2; i++) assert.equal(Buffer.from(await concatenate([page])).toString(), rows);
});

test('a page that is not read leaves no file open', async () => {
  const path = join(directory, 'unread');
  writeFileSync(path, rows);
  const page = await PageBytes.find([path], 0, rows.length, 1);
  await new Promise((resolve) => setTimeout(resolve, 50));
  rmSync(path);
  await assert.rejects(concatenate([page]), { code: 'RESULT_EXPIRED' });
});
