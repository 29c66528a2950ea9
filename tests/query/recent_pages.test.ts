// Pages of a result that grows are sent from memory, where the last blocks of its file are: they are the pages of the file, however late they are
// read, and a slow reader neither gets other bytes nor keeps more than a bounded part of the result in memory. Rows of a printed seed.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { blockBytes } from '../../src/engines/results/block_file.ts';
import { PagedFile, type PageEnd } from '../../src/engines/results/paged_file.ts';
import type { RecentBytes } from '../../src/engines/results/recent_blocks.ts';
import { PageBytes } from '../../src/query/results/page_bytes.ts';
import { concatenate } from '../../src/standard/record_body.ts';
import { Random, seedFrom } from '../random.ts';

const seed = seedFrom('RECENT_PAGES_SEED');
console.log(`RECENT_PAGES_SEED=${seed}`);
const random = new Random(seed);
const directory = mkdtempSync(join(tmpdir(), 'tabularium-recent-pages-'));
after(() => rmSync(directory, { recursive: true, force: true }));

const blocks = 24;
const blocksInMemoryMax = 20;

/** Rows of about 64 KiB. */
function chunkOf(rows: number): Buffer {
  const text = Array.from({ length: rows }, () => `["${'x'.repeat(random.below(4000))}",${random.below(1e9)}],\n`);
  return Buffer.from(text.join(''));
}

/** Writes a result of many blocks. `onPage`: what a reader does with each page, and may take its time for. */
async function grow(path: string, onPage: (page: PageEnd & { readonly start: number }) => void): Promise<PagedFile> {
  let start = 0;
  const file = new PagedFile({
    path,
    pageBytesMax: random.pick([300_000, blockBytes, 3_000_000]),
    keepsRecent: true,
    onPage: (page) => {
      onPage({ start, ...page });
      start = page.end;
    },
  });
  while (file.bytes < blocks * blockBytes) await file.append([chunkOf(32)], 32);
  return file;
}

async function textOf(page: PageBytes): Promise<string> {
  const text = Buffer.from(await concatenate([page])).toString();
  assert.equal(Buffer.byteLength(text), page.byteLength);
  return text;
}

test('a page is the same from memory and from the file, whenever it is read', async () => {
  const path = join(directory, 'grown');
  const pages: { start: number; end: number; endRow: number }[] = [];
  const read: Promise<string>[] = [];
  let recent: RecentBytes | undefined;
  const find = (start: number, end: number) => PageBytes.findLive([path], recent, start, end);
  const file = await grow(path, (page) => {
    recent = page.recent;
    pages.push(page);
    read.push(find(page.start, page.end).then(textOf));
  });
  const late = pages.map(({ start, end }) => find(start, end).then(textOf));
  const [soon, afterwards] = [await Promise.all(read), await Promise.all(late)];
  const { offsets, firstRows } = await file.finish();
  const whole = readFileSync(path);
  assert.ok(pages.length > 4);
  for (const [i, { start, end, endRow }] of pages.entries()) {
    const expected = whole.toString('utf8', start, end - 2);
    assert.equal(whole.toString('utf8', end - 2, end), ',\n');
    assert.ok(soon[i] === expected && afterwards[i] === expected, `page ${i}`);
    assert.deepEqual([offsets[i + 1], firstRows[i + 1]], [end, endRow]);
    assert.equal(JSON.parse(`[${expected}]`).length, endRow - (pages[i - 1]?.endRow ?? 0));
    // What was in memory is in the file once the result is complete.
    assert.equal(recent?.hold(start, end), undefined);
    assert.ok((await textOf(await find(start, end))) === expected);
  }
});

test('a slow reader keeps its own bytes, and memory stays bounded', async () => {
  const path = join(directory, 'slow');
  const state: { reader?: AsyncIterator<Uint8Array>; first?: Promise<IteratorResult<Uint8Array>>; end: number } = {
    end: 0,
  };
  let recent: RecentBytes | undefined;
  const file = await grow(path, (page) => {
    recent = page.recent;
    if (state.first) return;
    state.end = page.end;
    const found = PageBytes.findLive([path], recent, 0, page.end);
    state.first = found.then((bytes) => {
      state.reader = bytes.read()[Symbol.asyncIterator]();
      return state.reader.next();
    });
  });
  let inMemory = 0;
  for (let position = 0; position < file.bytes; position += blockBytes) {
    const held = recent?.hold(position, file.bytes);
    held?.release();
    if (held) inMemory++;
  }
  assert.ok(inMemory > 1 && inMemory <= blocksInMemoryMax, `${inMemory} blocks are in memory`);
  const late = recent?.hold(file.bytes - 3 * blockBytes, file.bytes);
  const lateBytes = Buffer.from(late?.bytes ?? []);
  await file.finish();
  // Its blocks are filled again for another result, but for those that are being read.
  await (await grow(join(directory, 'other'), () => undefined)).finish();
  assert.ok(lateBytes.length > 0 && lateBytes.equals(late?.bytes ?? Buffer.alloc(0)));
  late?.release();
  const parts: Buffer[] = [];
  for (let next = await state.first; next && !next.done; next = await state.reader?.next())
    parts.push(Buffer.from(next.value));
  const expected = readFileSync(path).subarray(0, state.end - 2);
  assert.ok(Buffer.concat(parts).equals(expected));
});

test('a page of a statement that failed is not found', async () => {
  const path = join(directory, 'failed');
  let last: (PageEnd & { readonly start: number }) | undefined;
  const file = await grow(path, (page) => {
    last = page;
  });
  await file.close();
  rmSync(path);
  await assert.rejects(PageBytes.findLive([path], last?.recent, last?.start ?? 0, last?.end ?? 0), {
    code: 'RESULT_EXPIRED',
  });
});
