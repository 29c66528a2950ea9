// Rotation of the key of a store's secrets: interrupted anywhere, it leaves a store that opens; and the output and refusals of the
// command `secrets rotate`.
import assert from 'node:assert/strict';
import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { rotationSteps } from '../../src/access/secrets/secret_rotation.ts';
import { SecretKeyError } from '../../src/access/secrets/secrets.ts';
import { storeFileName } from '../../src/store/sqlite/sqlite_store.ts';
import type { FaultInjector } from '../../src/store/store.ts';
import {
  keyPath,
  newDirectory,
  newKey,
  rotate,
  rowsOf,
  storeWithSecrets,
  withSecrets,
  withStore,
} from './sealed_store.ts';

const main = join(import.meta.dirname, '../../src/main.ts');

describe('a new key', () => {
  it('replaces the old one, which opens nothing any more', async () => {
    const { directory, requireSecretsOpen } = await storeWithSecrets();
    const before = readFileSync(keyPath(directory), 'utf8');
    const oldRows = await withStore(directory, rowsOf);
    assert.deepEqual(await rotate(directory), { secrets: 3, keyFile: keyPath(directory), isInPlace: true });
    const text = readFileSync(keyPath(directory), 'utf8');
    assert.notEqual(text, before);
    assert.equal(statSync(keyPath(directory)).mode & 0o777, 0o600);
    await requireSecretsOpen();
    await assert.rejects(
      withSecrets(directory, { key: before }, async () => {}),
      SecretKeyError,
    );
    const file = readFileSync(join(directory, storeFileName));
    for (const { name, sealed } of oldRows)
      assert.ok(!file.includes(sealed), `${name} is still in the file in its old form`);
    assert.deepEqual(readdirSync(directory).sort(), ['metadata.sqlite', 'metadata.sqlite-sums', 'secret.key']);
  });

  it('can be given by a file or the environment', async () => {
    const { directory, requireSecretsOpen } = await storeWithSecrets();
    const newKeyFile = join(newDirectory(), 'key');
    writeFileSync(newKeyFile, newKey(), { mode: 0o600 });
    const old = readFileSync(keyPath(directory), 'utf8');
    assert.deepEqual(await rotate(directory, { newKeyFile }), {
      secrets: 3,
      keyFile: newKeyFile,
      isInPlace: false,
    });
    assert.equal(readFileSync(keyPath(directory), 'utf8'), old);
    await requireSecretsOpen({ keyFile: newKeyFile });
    const nextKey = newKey();
    await rotate(directory, { keyFile: newKeyFile, nextKey });
    await requireSecretsOpen({ key: nextKey });
    const third = newKey();
    await rotate(directory, { key: nextKey, nextKey: third });
    await requireSecretsOpen({ key: third });
    await requireSecretsOpen({ key: nextKey, nextKey: third });
  });

  it('must be given exactly once', async () => {
    const key = newKey();
    const { directory, requireSecretsOpen } = await storeWithSecrets({ key });
    await assert.rejects(rotate(directory, { key }), /give the new one in TABULARIUM_SECRET_KEY_NEW or/);
    await assert.rejects(rotate(directory, { key, nextKey: newKey(), newKeyFile: 'x' }), /given twice/);
    await assert.rejects(
      rotate(directory, { key, newKeyFile: join(directory, 'none') }),
      /none does not exist; give another with --new-key-file/,
    );
    await assert.rejects(rotate(directory, { key, nextKey: 'short' }), /TABULARIUM_SECRET_KEY_NEW must hold/);
    await assert.rejects(rotate(directory, { key: newKey(), nextKey: newKey() }), /another key/);
    await requireSecretsOpen({ key });
  });

  it('is refused if a secret does not open', async () => {
    const { directory } = await storeWithSecrets();
    await withStore(directory, (store) =>
      store.db.updateTable('secrets').set({ sealed: 'AAAA' }).where('name', '=', 'one').execute(),
    );
    const before = readFileSync(keyPath(directory), 'utf8');
    await assert.rejects(rotate(directory), /"one" cannot be decrypted.*nothing was done/);
    assert.equal(readFileSync(keyPath(directory), 'utf8'), before);
    await withSecrets(directory, {}, async (secrets) => assert.equal(await secrets.get('two'), 'the second'));
  });
});

describe('an interrupted rotation', () => {
  for (const step of rotationSteps)
    for (const isSupplied of [false, true])
      it(`before ${step}${isSupplied ? ', to a key that is given,' : ''} leaves a store that opens, and can be completed`, async () => {
        const key = newKey();
        const nextKey = newKey();
        const options = isSupplied ? { key, nextKey } : {};
        const { directory, requireSecretsOpen } = await storeWithSecrets(isSupplied ? { key } : {});
        const beforeStep = (reached: string) => {
          if (reached === step) throw new Error('interrupted');
        };
        await assert.rejects(rotate(directory, { ...options, beforeStep }), /interrupted/);
        await requireSecretsOpen(options);
        await assert.rejects(rotate(directory, { ...options, beforeStep }), /interrupted/);
        await rotate(directory, options);
        await requireSecretsOpen(isSupplied ? { key: nextKey } : {});
      });

  it('before any statement of the store leaves a store that opens', async () => {
    const { directory, requireSecretsOpen } = await storeWithSecrets();
    let brokenRotations = 0;
    for (let failAt = 1; ; failAt++) {
      let count = 0;
      const inject: FaultInjector = ({ sql }) => {
        // The migration happens before, and is not part of the rotation.
        if (/"?secrets"?|vacuum|commit|begin/.test(sql) && ++count === failAt) throw new Error('interrupted');
      };
      const isRotated = await rotate(directory, {}, inject).then(
        () => true,
        (error: Error) => {
          assert.match(error.message, /interrupted/);
          return false;
        },
      );
      await requireSecretsOpen();
      if (isRotated) break;
      brokenRotations++;
    }
    assert.ok(brokenRotations >= 7, `${brokenRotations} statements`);
  });

  it('leaves no unused key behind', async () => {
    const { directory, requireSecretsOpen } = await storeWithSecrets();
    const beforeStep = (reached: string) => {
      if (reached === 'rows') throw new Error('interrupted');
    };
    await assert.rejects(rotate(directory, { beforeStep }), /interrupted/);
    assert.ok(existsSync(`${keyPath(directory)}.new`));
    await requireSecretsOpen();
    assert.deepEqual(readdirSync(directory).sort(), ['metadata.sqlite', 'metadata.sqlite-sums', 'secret.key']);
  });
});

describe('the command secrets rotate', () => {
  const run = (env: Record<string, string>, ...args: string[]): SpawnSyncReturns<string> =>
    spawnSync(process.execPath, [main, 'secrets', 'rotate', ...args], {
      encoding: 'utf8',
      env: { PATH: process.env.PATH ?? '', ...env },
    });

  it('installs another key, and prints where it is', async () => {
    const { directory, requireSecretsOpen } = await storeWithSecrets();
    const { status, stdout, stderr } = run({}, '--data-dir', directory);
    assert.equal(status, 0, stderr);
    assert.equal(
      stdout,
      `3 secrets are encrypted with the new key.\nIt is in ${keyPath(directory)}; back it up separately from the data.\n`,
    );
    await requireSecretsOpen();
  });

  it('takes keys from the environment, and prints none', async () => {
    const [key, nextKey] = [newKey(), newKey()];
    const { directory, requireSecretsOpen } = await storeWithSecrets({ key });
    const env = { TABULARIUM_SECRET_KEY: key, TABULARIUM_SECRET_KEY_NEW: nextKey, TABULARIUM_DATA_DIR: directory };
    const { status, stdout, stderr } = run(env);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /Start the server with the new key in TABULARIUM_SECRET_KEY\./);
    const { stdout: help } = run(env, '--help');
    for (const text of [stdout, stderr, help]) for (const secret of [key, nextKey]) assert.ok(!text.includes(secret));
    await requireSecretsOpen({ key: nextKey });
  });

  it('reports errors without a stack', async () => {
    const empty = newDirectory();
    const emptyRun = run({}, '--data-dir', empty);
    assert.deepEqual([emptyRun.status, emptyRun.stdout], [2, '']);
    assert.match(emptyRun.stderr, /^\S+ does not contain the data of a server; choose another with --data-dir\n$/);
    assert.deepEqual(readdirSync(empty), []);
    const { directory, requireSecretsOpen } = await storeWithSecrets();
    await withStore(directory, async () => {
      const inUse = run({}, '--data-dir', directory);
      assert.equal(inUse.status, 1);
      assert.match(inUse.stderr, /^another server uses .*; stop it, .*\n$/);
    });
    const other = run(
      { TABULARIUM_SECRET_KEY: newKey(), TABULARIUM_SECRET_KEY_NEW: newKey() },
      '--data-dir',
      directory,
    );
    assert.equal(other.status, 1);
    assert.match(other.stderr, /^the secrets of this store are encrypted with another key .*\n$/);
    const secondKey = run({ TABULARIUM_SECRET_KEY: newKey() }, '--data-dir', directory, '--secret-key-file', 'x');
    assert.equal(secondKey.status, 2);
    assert.match(secondKey.stderr, /^TABULARIUM_SECRET_KEY and secretKeyFile are both set/);
    await requireSecretsOpen();
  });

  it('has a flag of its own; no flag and no configuration file contains a key', async () => {
    const { directory } = await storeWithSecrets();
    const serve = spawnSync(process.execPath, [main, '--new-key-file', 'x'], { encoding: 'utf8' });
    assert.equal(serve.status, 2);
    assert.match(serve.stderr, /^--new-key-file is only accepted by the command "secrets rotate"\n$/);
    assert.match(run({}, '--secret-key', newKey()).stderr, /^--secret-key is not a flag/);
    writeFileSync(join(directory, 'config.json'), JSON.stringify({ secretKey: newKey() }));
    assert.match(run({}, '--data-dir', directory).stderr, /has the key "secretKey", which is not one/);
  });
});
