// The rows of a result that the page holds, while more of them arrive.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RowBlocks } from '../../console/src/results/grid/row_blocks.ts';

describe('blocks of rows', () => {
  it('has the rows that arrived while a part of their block was fetched', async () => {
    const arrived = [[1n], [2n]];
    const changes = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let changed = 0;
    const rows = new RowBlocks(
      // Answers with what has arrived when it is asked, as the worker of results does.
      { ask: (_question) => Promise.resolve([...arrived] as never) },
      { filters: [] },
      () => changes[changed++]?.resolve(),
      (error) => assert.fail(String(error)),
    );
    rows.need(0, 2, 2);
    arrived.push([3n]);
    rows.need(0, 3, 3);
    await Promise.all(changes.map(({ promise }) => promise));
    assert.deepEqual([rows.row(0), rows.row(2)], [[1n], [3n]]);
  });
});
