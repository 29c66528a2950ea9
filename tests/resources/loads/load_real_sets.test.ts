// Real data sets, loaded by database load: in their original format, and in each of the others, two of them compressed; equal to what
// DuckDB reads from the same file in this process. `npm run soak` covers every format with every compression, also of the largest set.
import assert from 'node:assert/strict';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { sampled } from '../../budget.ts';
import { start, type TestServer } from '../../server.ts';
import { compressions, formatOf, formats, largest, RealSets, setNames, setsDirectory } from './real_sets.ts';

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
const setsMin = 8;

test('a public data set is the same after loading', async (t) => {
  const remaining = sampled(t, 6, [...setNames().entries()], (sampledCount) => sampledCount >= setsMin);
  const loadNextSet = async () => {
    for (let next = remaining.next(); !next.done; next = remaining.next()) await requireSameRows(...next.value);
  };
  await Promise.all(Array.from({ length: atOnce }, loadNextSet));
});

async function requireSameRows(i: number, name: string): Promise<void> {
  const original = await sets.original(name);
  assert.deepEqual(original.got, original.expected, name);
  const others = name === largest ? [] : formats.filter((format) => format !== formatOf(name));
  for (const [n, format] of others.entries()) {
    const { got, expected } = await sets.writeVariant(
      name,
      format,
      compressions[(i + n) % compressions.length] ?? 'none',
    );
    assert.deepEqual(got, expected, `${name} as ${format}`);
  }
}
