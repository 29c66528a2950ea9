// A sample of what `npm run soak` does with every cell: keyed requests, deaths of the engine and the server, and the repeated
// request. SOAK_SEED replays a run, SOAK_CELLS (`rows/engine/during`, or a part of it) selects cells.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { deadlineMs } from '../../deadline.ts';
import { Random, seedFrom } from '../../random.ts';
import { closeExternalSystems } from '../injection/external_systems.ts';
import { allCells, runCells } from './keyed_deaths.ts';

const budgetMs = 20_000;
const seed = seedFrom('SOAK_SEED');

describe('a keyed request during which a process is killed', () => {
  after(closeExternalSystems);

  test('is applied once when it is repeated', { timeout: deadlineMs(120_000) }, async (t) => {
    t.diagnostic(`SOAK_SEED=${seed}`);
    const cells = process.env.SOAK_CELLS
      ? allCells.filter(({ kind, victim, moment }) =>
          `${kind.name}/${victim}/${moment}`.includes(String(process.env.SOAK_CELLS)),
        )
      : allCells;
    const { cells: cellsRun, problems } = await runCells(cells, new Random(seed), Date.now() + budgetMs);
    t.diagnostic(`${cellsRun} cells`);
    assert.deepEqual(problems, []);
  });
});
