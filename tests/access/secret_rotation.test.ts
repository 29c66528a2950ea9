// Rotation of the key of a store's secrets: interrupted anywhere, it leaves a store that opens; and the output and refusals of the
// command `secrets rotate`.
import assert from 'node:assert/strict';
import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { rotationSteps } from '../../src/access/secrets/secret_rotation.ts';
import { SecretKeyError } from '../../src/access/secrets/secrets.ts';
import { type FaultInjector, storeFileName } from '../../src/store/store.ts';
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
    const { directory, requireWhole } = await storeWithSecrets();
    const before = readFileSync(keyPath(directory), 'utf8');
    const oldRows = await withStore(directory, rowsOf);
    assert.deepEqual(await rotate(directory), { secrets: 3, keyFile: keyPath(directory), isInPlace: true });
    const text = readFileSync(keyPath(directory), 'utf8');
    assert.notEqual(text, before);
    assert.equal(statSync(keyPath(directory)).mode & 0o777, 0o600);
    await requireWhole();
    await assert.rejects(
      withSecrets(directory, { key: before }, async () => {}),
      SecretKeyError,
    );
    const file = readFileSync(join(directory, storeFileName));
    for (const { name, sealed } of oldRows) assert.ok(!file.includes(sealed), `${name} as it was is in the file yet`);
    assert.deepEqual(readdirSync(directory).sort(), ['metadata.sqlite', 'metadata.sqlite-sums', 'secret.key']);
  });

  it('can be given by a file or the environment', async () => {
    const { directory, requireWhole } = await storeWithSecrets();
    const newKeyFile = join(newDirectory(), 'key');
    writeFileSync(newKeyFile, newKey(), { mode: 0o600 });
    const old = readFileSync(keyPath(directory), 'utf8');
    assert.deepEqual(await rotate(directory, { newKeyFile }), {
      secrets: 3,
      keyFile: newKeyFile,
      isInPlace: false,
    });
    assert.equal(readFileSync(keyPath(directory), 'utf8'), old);
    await requireWhole({ keyFile: newKeyFile });
    const nextKey = newKey();
    await rotate(directory, { keyFile: newKeyFile, nextKey });
    await requireWhole({ key: nextKey });
    const third = newKey();
    await rotate(directory, { key: nextKey, nextKey: third });
    await requireWhole({ key: third });
    await requireWhole({ key: nextKey, nextKey: third });
  });

  it('must be given exactly once', async () => {
    const key = newKey();
    const { directory, requireWhole } = await storeWithSecrets({ key });
    await assert.rejects(rotate(directory, { key }), /give the new one in TABULARIUM_SECRET_KEY_NEW or/);
    await assert.rejects(rotate(directory, { key, nextKey: newKey(), newKeyFile: 'x' }), /given twice/);
    await assert.rejects(
      rotate(directory, { key, newKeyFile: join(directory, 'none') }),
      /none does not exist; give another with --new-key-file/,
    );
    await assert.rejects(rotate(directory, { key, nextKey: 'short' }), /TABULARIUM_SECRET_KEY_NEW must hold/);
    await assert.rejects(rotate(directory, { key: newKey(), nextKey: newKey() }), /another key/);
    await requireWhole({ key });
  });

  it('is refused if a secret does not open', async () => {
    const { directory } = await storeWithSecrets();
    await withStore(directory, (store) =>
      store.db.updateTable('secrets').set({ sealed: 'AAAA' }).where('name', '=', 'one').execute(),
    );
    const before = readFileSync(keyPath(directory), 'utf8');
    await assert.rejects(rotate(directory), /"one" does not open.*nothing was done/);
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
        const { directory, requireWhole } = await storeWithSecrets(isSupplied ? { key } : {});
        const beforeStep = (reached: string) => {
          if (reached === step) throw new Error('broken off');
        };
        await assert.rejects(rotate(directory, { ...options, beforeStep }), /broken off/);
        await requireWhole(options);
        await assert.rejects(rotate(directory, { ...options, beforeStep }), /broken off/);
        await rotate(directory, options);
        await requireWhole(isSupplied ? { key: nextKey } : {});
      });

  it('before any statement of the store leaves a store that opens', async () => {
    const { directory, requireWhole } = await storeWithSecrets();
    let broken = 0;
    for (let failAt = 1; ; failAt++) {
      let count = 0;
      const inject: FaultInjector = ({ sql }) => {
        // The migration happens before, and is not part of the rotation.
        if (/"?secrets"?|vacuum|commit|begin/.test(sql) && ++count === failAt) throw new Error('broken off');
      };
      const done = await rotate(directory, {}, inject).then(
        () => true,
        (error: Error) => {
          assert.match(error.message, /broken off/);
          return false;
        },
      );
      await requireWhole();
      if (done) break;
      broken++;
    }
    assert.ok(broken >= 7, `${broken} statements`);
  });

  it('leaves no unused key behind', async () => {
    const { directory, requireWhole } = await storeWithSecrets();
    const beforeStep = (reached: string) => {
      if (reached === 'rows') throw new Error('broken off');
    };
    await assert.rejects(rotate(directory, { beforeStep }), /broken off/);
    assert.ok(existsSync(`${keyPath(directory)}.new`));
    await requireWhole();
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
    const { directory, requireWhole } = await storeWithSecrets();
    const { status, stdout, stderr } = run({}, '--data-dir', directory);
    assert.equal(status, 0, stderr);
    assert.equal(
      stdout,
      `3 secrets are encrypted with the new key.\nIt is in ${keyPath(directory)}; back it up separately from the data.\n`,
    );
    await requireWhole();
  });

  it('takes keys from the environment, and prints none', async () => {
    const [key, nextKey] = [newKey(), newKey()];
    const { directory, requireWhole } = await storeWithSecrets({ key });
    const env = { TABULARIUM_SECRET_KEY: key, TABULARIUM_SECRET_KEY_NEW: nextKey, TABULARIUM_DATA_DIR: directory };
    const { status, stdout, stderr } = run(env);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /Start the server with the new key in TABULARIUM_SECRET_KEY\./);
    const { stdout: help } = run(env, '--help');
    for (const text of [stdout, stderr, help]) for (const secret of [key, nextKey]) assert.ok(!text.includes(secret));
    await requireWhole({ key: nextKey });
  });

  it('reports errors without a stack', async () => {
    const empty = newDirectory();
    const nothing = run({}, '--data-dir', empty);
    assert.deepEqual([nothing.status, nothing.stdout], [2, '']);
    assert.match(nothing.stderr, /^\S+ does not contain the data of a server; choose another with --data-dir\n$/);
    assert.deepEqual(readdirSync(empty), []);
    const { directory, requireWhole } = await storeWithSecrets();
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
    const twice = run({ TABULARIUM_SECRET_KEY: newKey() }, '--data-dir', directory, '--secret-key-file', 'x');
    assert.equal(twice.status, 2);
    assert.match(twice.stderr, /^TABULARIUM_SECRET_KEY and secretKeyFile are both set/);
    await requireWhole();
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
