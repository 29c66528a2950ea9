// The file of a result has the bytes of its blocks, whichever of them bypass the page cache, and also where a block or a file system does not
// permit that.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { alignedBlock, BlockFile, blockBytes } from '../../src/engines/results/block_file.ts';
import { Random, seedFrom } from '../random.ts';

const seed = seedFrom('BLOCK_FILE_SEED');
console.log(`BLOCK_FILE_SEED=${seed}`);
const random = new Random(seed);
const memory = '/dev/shm';
const directories = [tmpdir(), ...(existsSync(memory) ? [memory] : [])].map((parent) =>
  mkdtempSync(join(parent, 'tabularium-block-file-')),
);
after(() => {
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
});

/** More than are written in one way before the other is tried. */
const blocks = 40;
const unaligned = () => Buffer.allocUnsafeSlow(blockBytes + 1).subarray(1);

for (const bypassesCache of [true, false])
  for (const [name, blockOf] of Object.entries({ aligned: alignedBlock, unaligned }))
    test(`blocks in ${name} memory, ${bypassesCache ? 'also past' : 'through'} the page cache`, async () => {
      for (const directory of directories) {
        const path = join(directory, `${name}-${bypassesCache}`);
        const file = await BlockFile.create(path, { bypassesCache });
        const block = blockOf();
        const fills = Array.from({ length: blocks }, () => random.below(256));
        for (const [i, fill] of fills.entries()) await file.write(block.fill(fill), i * blockBytes);
        await file.write(Buffer.from('the rest'), blocks * blockBytes);
        await file.close();
        const written = readFileSync(path);
        assert.equal(written.length, blocks * blockBytes + 'the rest'.length);
        for (const [i, fill] of fills.entries())
          assert.ok(written.subarray(i * blockBytes, (i + 1) * blockBytes).equals(block.fill(fill)), `block ${i}`);
        assert.equal(written.toString('utf8', blocks * blockBytes), 'the rest');
        rmSync(path);
      }
    });
