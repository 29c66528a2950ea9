// Which names are refused for principals only; names.ts refuses names that are invalid for all objects, before they are folded.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nameFault } from '../../src/model/names.ts';
import { principalNameFault } from '../../src/model/principal_names.ts';

test('names that resemble a reserved principal, or contain invisible characters, are refused', () => {
  for (const name of ['root', 'ROOT', 'system', 'rооt', 'ѕystem', 'róot', 'r\u200boot'])
    assert.notEqual(principalNameFault(name), undefined, JSON.stringify(name));
  for (const name of ['roots', 'anna', 'José']) assert.equal(principalNameFault(name), undefined, name);
});

test('a name that is too long for any object is not folded', () => {
  const long = `root${' '.repeat(1_000_000)}`;
  assert.notEqual(nameFault(long), undefined);
  assert.equal(principalNameFault(long), undefined);
});
