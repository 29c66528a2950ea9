// The Allow header of `/databases/search` listed PUT, which an object with that name would have; but a PUT there is the
// collection's action, which does not take PUT, and was answered with 405.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { categoriesWith } from '../../../src/resources/index.ts';
import type { Failure } from '../../../src/standard/failure.ts';
import { Routes } from '../../../src/standard/paths.ts';

test('every method that a 405 names is supported by the path', () => {
  const routes = new Routes(categoriesWith({ rowsBodyBytesMax: 1 }));
  for (const path of ['/api/v2/databases/search', '/api/v2/databases/create', '/api/v2/databases/d/tables/search']) {
    assert.throws(
      () => routes.resolve('TRACE', path),
      (failure: Failure) => {
        for (const method of failure.result.allow as string[])
          if (method !== 'OPTIONS') assert.ok(routes.resolve(method, path), `${method} ${path}`);
        return failure.code === 'METHOD_NOT_ALLOWED';
      },
    );
  }
});
