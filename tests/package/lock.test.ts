// The lock file is complete: when npm runs on one platform, it may drop the packages of the others from it, and then refuses the
// file that it wrote (npm ci: "Missing: ... from lock file").
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

interface LockedPackage {
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const { packages } = JSON.parse(readFileSync(new URL('../../package-lock.json', import.meta.url), 'utf8')) as {
  packages: Readonly<Record<string, LockedPackage>>;
};

test('the lock file has every optional package that a locked one names', () => {
  const missing = Object.values(packages).flatMap(({ optionalDependencies = {} }) =>
    Object.keys(optionalDependencies).filter((name) => !Object.hasOwn(packages, `node_modules/${name}`)),
  );
  assert.deepEqual(missing, [], 'add an entry with version, os, cpu and "optional": true for each');
});
