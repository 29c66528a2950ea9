// Loads and exports real data sets in every format and compression, as many of them as time permits.
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Random } from '../random.ts';
import { compressions, formats, RealSets, type Sums, setNames, setsDirectory } from '../resources/loads/real_sets.ts';
import { start } from '../server.ts';

export interface RealSetsReport {
  readonly sets: number;
  readonly loads: number;
  readonly rows: number;
}

/** The sets in random order, each complete before the next. Differences are added to `problems`. */
export async function loadRealSets(random: Random, deadline: number, problems: string[]): Promise<RealSetsReport> {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'real ')));
  const server = await start({ loadDirectories: `${directory}:${setsDirectory}` });
  const realSets = await RealSets.open(server, directory);
  const names = setNames();
  let [sets, loads, rows] = [0, 0, 0];
  const note = (setName: string, { expected, got }: { readonly expected: Sums; readonly got: Sums }) => {
    loads++;
    rows += Number(got.sums[0]);
    if (!isDeepStrictEqual(got, expected))
      problems.push(`${setName}: ${JSON.stringify(got)} instead of ${JSON.stringify(expected)}`);
  };
  try {
    while (names.length > 0 && Date.now() < deadline) {
      const [name] = names.splice(random.below(names.length), 1) as [string];
      note(name, await realSets.original(name));
      for (const format of formats)
        for (const packing of compressions)
          note(`${name} ${format} ${packing}`, await realSets.writeVariant(name, format, packing));
      sets++;
    }
  } finally {
    realSets.close();
    await server.close();
    rmSync(directory, { recursive: true, force: true });
  }
  return { sets, loads, rows };
}
