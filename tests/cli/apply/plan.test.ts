// The order of a plan is that of its files, whichever answer of the server came first.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tablesApi } from '../../../src/api/tables/tables.ts';
import { type Phase, PlanBuilder, type Step } from '../../../src/cli/apply/plan/plan.ts';

const step = (phase: Phase, title: string, file?: string, line = 1): Step => ({
  action: phase === 'drop tables' ? 'drop' : 'create',
  phase,
  title,
  place: file === undefined ? undefined : { file, line, column: 1 },
  differences: [],
  category: tablesApi,
  operation: 'create',
  uri: `/api/v2/${title}`,
  fields: {},
});

test('tables and schedules are in the order of the files, views in that of their creation', () => {
  const builder = new PlanBuilder();
  for (const each of [
    step('views', 'reads base', 'a.yaml'),
    step('views', 'second', 'b.yaml'),
    step('drop tables', 'y'),
    step('drop tables', 'x'),
    step('tables', 'c', 'b.yaml', 3),
    step('tables', 'b', 'a.yaml', 20),
    step('tables', 'b then its comment', 'a.yaml', 20),
    step('tables', 'a', 'a.yaml', 9),
    step('tables', 'no place'),
    step('databases', 'z', 'z.yaml'),
  ])
    builder.add(each);
  assert.deepEqual(
    builder.built().steps.map(({ title }) => title),
    ['z', 'a', 'b', 'b then its comment', 'c', 'no place', 'reads base', 'second', 'x', 'y'],
  );
});
