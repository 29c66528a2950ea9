// Whose rows a part has, by its name.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { missingParts } from '../../../../src/engines/clickhouse/replication/parts.ts';

describe('parts', () => {
  const cases: readonly (readonly [string, readonly string[], readonly string[], readonly string[]])[] = [
    ['present', ['all_0_0_0'], ['all_0_0_0'], []],
    ['absent', ['all_0_0_0', 'all_1_1_0'], ['all_1_1_0'], ['all_0_0_0']],
    ['merged into a later one', ['all_0_0_0', 'all_1_1_0'], ['all_0_1_1'], []],
    ['merged before, and not here', ['all_0_1_1'], ['all_0_0_0', 'all_1_1_0'], ['all_0_1_1']],
    ['of another partition', ['201601_0_0_0'], ['201602_0_9_3'], ['201601_0_0_0']],
    ['mutated, and not here', ['all_0_0_0_7'], ['all_0_0_0'], ['all_0_0_0_7']],
    ['mutated here only', ['all_0_0_0'], ['all_0_0_0_7'], []],
    [
      'with blocks beyond exact integers',
      ['all_9007199254740993_9007199254740993_0'],
      ['all_9007199254740992_9007199254740992_0'],
      ['all_9007199254740993_9007199254740993_0'],
    ],
    ['of an unknown form', ['patch-x'], ['all_0_9_9'], ['patch-x']],
  ];
  for (const [name, needed, present, missing] of cases)
    test(name, () => assert.deepEqual(missingParts(needed, present), missing));
});
