// Secrets at rest: they open with their key only; and where that key can be stored. See secret_rotation.test.ts for changing it.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { openSecrets, SecretKeyError } from '../../src/access/secrets/secrets.ts';
import type { Observation } from '../../src/observe/observations.ts';
import { keyPath, newDirectory, newKey, rowsOf, storeWithSecrets, withSecrets, withStore } from './sealed_store.ts';

describe('secrets', () => {
  it('are read, replaced and removed', async () => {
    await withSecrets(newDirectory(), {}, async (secrets) => {
      assert.equal(await secrets.get('one'), undefined);
      for (const text of ['', 'sécret 🔑', 'x'.repeat(100_000)]) {
        await secrets.put('one', text);
        assert.equal(await secrets.get('one'), text);
      }
      await secrets.remove('one');
      assert.equal(await secrets.get('one'), undefined);
      await secrets.remove('one');
    });
  });

  it('are part of the enclosing transaction', async () => {
    await withSecrets(newDirectory(), {}, async (secrets, store) => {
      await secrets.put('existing', 'before');
      const failing = store.transaction(async (tx) => {
        await secrets.put('one', 'text', tx);
        await secrets.remove('existing', tx);
        assert.equal(await secrets.get('one', tx), 'text');
        throw new Error('no');
      });
      await assert.rejects(failing, /no/);
      assert.equal(await secrets.get('one'), undefined);
      assert.equal(await secrets.get('existing'), 'before');
    });
  });

  it('are created once, however many callers need one', async () => {
    await withSecrets(newDirectory(), {}, async (secrets) => {
      let created = 0;
      const requested = Array.from({ length: 10 }, () => secrets.getOrCreate('one', () => `made ${++created}`));
      assert.deepEqual(new Set(await Promise.all(requested)), new Set(['made 1']));
    });
  });

  it('are in no file in plain text, and are never sealed twice to the same text', async () => {
    const directory = newDirectory();
    const text = 'PLANTED-c2VjcmV0';
    await withSecrets(directory, {}, async (secrets, store) => {
      const seals = new Set<string>();
      for (let i = 0; i < 10; i++) {
        await secrets.put('one', text);
        for (const { name, sealed } of await rowsOf(store)) if (name === 'one') seals.add(sealed);
      }
      assert.equal(seals.size, 10);
      for (const name of readdirSync(directory))
        assert.ok(!readFileSync(join(directory, name)).includes(text), `${name} has it`);
    });
  });

  it('do not open after a bit was changed, or under another name', async () => {
    await withSecrets(newDirectory(), {}, async (secrets, store) => {
      await secrets.put('one', 'text');
      await secrets.put('two', 'other');
      const sealedOf = async (name: string) => (await rowsOf(store)).find((row) => row.name === name)?.sealed as string;
      const sealedText = await sealedOf('one');
      const set = (sealed: string) =>
        store.db.updateTable('secrets').set({ sealed }).where('name', '=', 'one').execute();
      const bytes = Buffer.from(sealedText, 'base64');
      for (let index = 0; index < bytes.length; index++) {
        const changedBytes = Buffer.from(bytes);
        changedBytes[index] = (changedBytes[index] ?? 0) ^ 1;
        await set(changedBytes.toString('base64'));
        await assert.rejects(secrets.get('one'), /"one" cannot be decrypted/, `byte ${index}`);
      }
      for (const sealed of [await sealedOf('two'), '', 'AAAA', bytes.subarray(0, -1).toString('base64')]) {
        await set(sealed);
        await assert.rejects(secrets.get('one'), /"one" cannot be decrypted/);
      }
      await set(sealedText);
      assert.equal(await secrets.get('one'), 'text');
    });
  });

  it('derive keys that are the same for a purpose, and differ between purposes and stores', async () => {
    const directory = newDirectory();
    const derive = (dataDirectory: string) =>
      withSecrets(dataDirectory, {}, async (secrets) =>
        ['audit', 'pages'].map((purpose) => secrets.derive(purpose).toString('hex')),
      );
    const first = await derive(directory);
    assert.deepEqual(await derive(directory), first);
    assert.equal(new Set([...first, ...(await derive(newDirectory()))]).size, 4);
    for (const key of first) assert.equal(key.length, 64);
  });
});

describe('the key', () => {
  const isKeyError = (message: RegExp) => (error: unknown) => {
    assert.ok(error instanceof SecretKeyError, String(error));
    assert.match(error.message, message);
    return true;
  };

  it('is created in the data directory, accessible to its owner only', async () => {
    const { directory, requireSecretsOpen } = await storeWithSecrets();
    assert.equal(statSync(keyPath(directory)).mode & 0o777, 0o600);
    assert.equal(Buffer.from(readFileSync(keyPath(directory), 'utf8').trim(), 'base64').length, 32);
    assert.deepEqual(
      readdirSync(directory).filter((name) => name.startsWith('secret')),
      ['secret.key'],
    );
    await requireSecretsOpen();
  });

  it('can be in a file in base64, base64url or hexadecimal', async () => {
    const { directory, requireSecretsOpen } = await storeWithSecrets();
    const bytes = Buffer.from(readFileSync(keyPath(directory), 'utf8'), 'base64');
    for (const text of [bytes.toString('hex'), bytes.toString('base64url'), ` ${bytes.toString('base64')}\r\n`]) {
      writeFileSync(keyPath(directory), text);
      await requireSecretsOpen();
    }
  });

  it('can be elsewhere, or in the environment', async () => {
    const text = newKey();
    const keyFile = join(newDirectory(), 'key');
    writeFileSync(keyFile, text, { mode: 0o600 });
    const { directory, requireSecretsOpen } = await storeWithSecrets({ keyFile });
    assert.equal(existsSync(keyPath(directory)), false);
    await requireSecretsOpen({ key: text });
    assert.equal(existsSync(keyPath(directory)), false);
  });

  it('is reported if other users can read it', async () => {
    const { directory } = await storeWithSecrets();
    const observationsAtOpen = async () => {
      const observations: Observation[] = [];
      await withStore(directory, (store) =>
        openSecrets({ store, dataDirectory: directory, observe: (o) => void observations.push(o) }),
      );
      return observations;
    };
    assert.deepEqual(await observationsAtOpen(), []);
    chmodSync(keyPath(directory), 0o644);
    assert.deepEqual(await observationsAtOpen(), [{ kind: 'secretKeyExposed', keyFile: keyPath(directory) }]);
  });

  for (const [description, text] of Object.entries({
    nothing: ' ',
    'a passphrase': 'correct horse battery staple',
    '31 bytes': randomBytes(31).toString('base64'),
    '33 bytes': randomBytes(33).toString('base64'),
    '31 bytes in hexadecimal': randomBytes(31).toString('hex'),
    'two lines': `${newKey()}\n${newKey()}`,
    'too much': newKey().repeat(1000),
  }))
    it(`that is ${description} is refused, and not shown`, async () => {
      const directory = newDirectory();
      const keyFile = join(directory, 'key');
      writeFileSync(keyFile, text);
      for (const options of [{ key: text }, { keyFile }])
        await assert.rejects(
          withSecrets(directory, options, async () => {}),
          (error: Error) => {
            isKeyError(/must hold a key: 32 random bytes/)(error);
            return !error.message.includes(text.trim() || 'none') && error.message.length < 1000;
          },
        );
    });

  it('that differs is refused, and nothing is changed', async () => {
    const { directory, requireSecretsOpen } = await storeWithSecrets();
    const keyFile = join(newDirectory(), 'key');
    writeFileSync(keyFile, newKey());
    const doNothing = async () => {};
    await assert.rejects(
      withSecrets(directory, { keyFile }, doNothing),
      isKeyError(/another key than the one in .*key;/),
    );
    await assert.rejects(
      withSecrets(directory, { key: newKey() }, doNothing),
      isKeyError(/than the one in TABULARIUM_SECRET_KEY/),
    );
    await requireSecretsOpen();
  });

  it('that is missing is not created again', async () => {
    const { directory } = await storeWithSecrets();
    rmSync(keyPath(directory));
    await assert.rejects(
      withSecrets(directory, {}, async () => {}),
      isKeyError(/secret\.key does not exist/),
    );
    assert.equal(existsSync(keyPath(directory)), false);
  });

  it('is not created in a configured file that does not exist', async () => {
    const directory = newDirectory();
    const keyFile = join(directory, 'nowhere');
    await assert.rejects(
      withSecrets(directory, { keyFile }, async () => {}),
      isKeyError(/nowhere does not exist/),
    );
    assert.equal(existsSync(keyFile), false);
  });
});
