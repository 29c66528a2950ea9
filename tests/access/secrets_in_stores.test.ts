// Secrets in each kind of store: part of a transaction, created once by concurrent servers, and sealed with another key.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { rotateSecrets } from '../../src/access/secrets/secret_rotation.ts';
import { openSecrets } from '../../src/access/secrets/secrets.ts';
import { storesOf } from '../stores.ts';

const dataDirectory = mkdtempSync(join(tmpdir(), 'tabularium-secrets-'));
const { store } = await storesOf(import.meta.url).open();
after(async () => {
  await store.close();
  rmSync(dataDirectory, { recursive: true, force: true });
});
const open = () => openSecrets({ store, dataDirectory });

test('a secret is created once by concurrent callers', async () => {
  const secrets = await open();
  let made = 0;
  const asked = Array.from({ length: 8 }, () => secrets.getOrCreate('shared', () => `made ${++made}`));
  assert.equal(new Set(await Promise.all(asked)).size, 1);
});

test('a secret is part of the enclosing transaction', async () => {
  const secrets = await open();
  await secrets.put('existing', 'before');
  const failing = store.transaction(async (tx) => {
    await secrets.put('existing', 'after', tx);
    assert.equal(await secrets.get('existing', tx), 'after');
    throw new Error('no');
  });
  await assert.rejects(failing, /no/);
  assert.equal(await secrets.get('existing'), 'before');
});

test('after a change of the key, secrets open with the new one only', async () => {
  const before = await open();
  await before.put('one', 'text');
  const derived = before.derive('audit');
  await rotateSecrets({ store, dataDirectory });
  await assert.rejects(before.get('one'), /cannot be decrypted/);
  const secrets = await open();
  assert.equal(await secrets.get('one'), 'text');
  assert.deepEqual(secrets.derive('audit'), derived);
});
