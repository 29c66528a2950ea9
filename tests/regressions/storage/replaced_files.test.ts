// A file that replaced another one under the same path was read with what the engine had cached of the old one: it reported that a page
// of Parquet had another compression. Found by `npm run soak`, in its real data sets.
import assert from 'node:assert/strict';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { RealSets, setsDirectory } from '../../resources/loads/real_sets.ts';
import { start } from '../../server.ts';

test('a file that was replaced is loaded with its new content', async (t) => {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'tabularium-anew-')));
  const server = await start({ loadDirectories: `${directory}:${setsDirectory}` });
  const realSets = await RealSets.open(server, directory);
  t.after(async () => {
    await realSets.close();
    await server.close();
    rmSync(directory, { recursive: true });
  });
  const name = 'population_engineers_hurricanes.csv';
  await realSets.original(name);
  for (const packing of ['gzip', 'zstd', 'none'] as const) {
    const { expected, got } = await realSets.writeVariant(name, 'parquet', packing);
    assert.deepEqual(got, expected, packing);
  }
});
