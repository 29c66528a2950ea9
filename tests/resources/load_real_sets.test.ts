// Data that others made, loaded by database load: each set as it is, and through each of the other formats, two of them packed; equal to what
// DuckDB reads of the same file in this process. Every format with every compression, of the largest set too, is in `npm run soak`.
import assert from 'node:assert/strict';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { start, type TestServer } from '../server.ts';
import { formatOf, formats, largest, packings, RealSets, setNames, setsDirectory } from './real_sets.ts';

const directory = realpathSync(mkdtempSync(join(tmpdir(), 'real ')));
let server: TestServer;
let sets: RealSets;

before(async () => {
  server = await start({ loadDirectories: `${directory}:${setsDirectory}` });
  sets = await RealSets.open(server, directory);
});
after(async () => {
  sets.close();
  await server.close();
  rmSync(directory, { recursive: true, force: true });
});

const atOnce = 4;

describe('a set of others is the same when it was loaded', { concurrency: atOnce }, () => {
  for (const [i, name] of setNames().entries()) {
    test(name, async () => {
      const original = await sets.original(name);
      assert.deepEqual(original.got, original.expected);
      const others = name === largest ? [] : formats.filter((format) => format !== formatOf(name));
      for (const [n, format] of others.entries()) {
        const { got, expected } = await sets.variant(name, format, packings[(i + n) % packings.length] ?? 'none');
        assert.deepEqual(got, expected, format);
      }
    });
  }
});
