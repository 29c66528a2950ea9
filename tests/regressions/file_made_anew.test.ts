// A file that took another's place under the same path was read with what the engine remembered of the one before: it said that a page
// of Parquet was not packed as the old one's had been. Found by `npm run soak`, in its real sets of data.
import assert from 'node:assert/strict';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { RealSets, setsDirectory } from '../resources/real_sets.ts';
import { start } from '../server.ts';

test('a file that was replaced is loaded with its new content', async (t) => {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'tabularium-anew-')));
  t.after(() => rmSync(directory, { recursive: true }));
  const server = await start({ loadDirectories: `${directory}:${setsDirectory}` });
  t.after(() => server.close());
  const real = await RealSets.open(server, directory);
  t.after(() => real.close());
  const name = 'population_engineers_hurricanes.csv';
  await real.original(name);
  for (const packing of ['gzip', 'zstd', 'none'] as const) {
    const { expected, got } = await real.variant(name, 'parquet', packing);
    assert.deepEqual(got, expected, packing);
  }
});
