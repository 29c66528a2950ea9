// Objects without a part in an engine in the manifest of a backup, which anybody may have written.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { restoredObject } from '../../src/backups/metadata_objects.ts';
import { Type } from '../../src/standard/type.ts';

const categories = [{ name: 'shelves', spec: Type.Object({ url: Type.String() }, { additionalProperties: false }) }];
const shelf = { category: 'shelves', id: '1', name: 'a', spec: { url: 'x' } };
const isInvalid = (message: RegExp) => ({ code: 'DATA_INVALID', message });

test('an object of a category that has them is restored with its spec', () => {
  const { id: _id, ...child } = shelf;
  assert.deepEqual(restoredObject(shelf, categories), child);
});

test('an object of another category is refused', () => {
  assert.throws(() => restoredObject({ ...shelf, category: 'users' }, categories), isInvalid(/"users"/));
});

test('a spec that the category does not declare is refused', () => {
  for (const spec of [{ url: 1 }, {}, null, { url: 'x', owner: 'root' }])
    assert.throws(() => restoredObject({ ...shelf, spec }, categories), isInvalid(/"a" in shelves/));
});
