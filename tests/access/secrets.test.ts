// Secrets at rest: what the store holds opens with its key only, where the key may be, and a change of the key that is broken off
// anywhere leaves a store that opens.
import assert from 'node:assert/strict';
import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { type RotationOptions, rotateSecrets, rotationSteps } from '../../src/access/secret_rotation.ts';
import { openSecrets, SecretKeyError, type Secrets } from '../../src/access/secrets.ts';
import type { Observation } from '../../src/observe/observations.ts';
import { type Inject, openStore, type Store, storeFileName } from '../../src/store/store.ts';

const main = join(import.meta.dirname, '../../src/main.ts');
const root = mkdtempSync(join(tmpdir(), 'tabularium-secrets-'));
after(() => rmSync(root, { recursive: true }));

const newDirectory = () => mkdtempSync(join(root, 'data-'));
const newKey = () => randomBytes(32).toString('base64');
const keyPath = (directory: string) => join(directory, 'secret.key');
type Place = Omit<RotationOptions, 'store' | 'dataDirectory'>;

async function withStore<T>(directory: string, work: (store: Store) => Promise<T>, inject?: Inject): Promise<T> {
  const store = await openStore({ file: join(directory, storeFileName), inject });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}
/** As a server does it. */
const withSecrets = <T>(directory: string, place: Place, work: (secrets: Secrets, store: Store) => Promise<T>) =>
  withStore(directory, async (store) => work(await openSecrets({ store, dataDirectory: directory, ...place }), store));
const rotate = (directory: string, place: Place = {}, inject?: Inject) =>
  withStore(directory, (store) => rotateSecrets({ store, dataDirectory: directory, ...place }), inject);
const rowsOf = (store: Store) => store.db.selectFrom('secrets').selectAll().orderBy('name').execute();

/** A store with two secrets, and what is to be read from it ever after. */
async function prepared(place: Place = {}) {
  const directory = newDirectory();
  const derived = await withSecrets(directory, place, async (secrets) => {
    await secrets.put('one', 'the first');
    await secrets.put('two', 'the second');
    return secrets.derive('audit').toString('hex');
  });
  const requireWhole = (now: Place = {}) =>
    withSecrets(directory, now, async (secrets) => {
      assert.equal(await secrets.get('one'), 'the first');
      assert.equal(await secrets.get('two'), 'the second');
      assert.equal(secrets.derive('audit').toString('hex'), derived);
    });
  return { directory, requireWhole };
}

describe('secrets', () => {
  it('are read again, replaced and removed', async () => {
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

  it('are part of the transaction that they are put in', async () => {
    await withSecrets(newDirectory(), {}, async (secrets, store) => {
      await secrets.put('kept', 'before');
      const failing = store.transaction(async (tx) => {
        await secrets.put('one', 'text', tx);
        await secrets.remove('kept', tx);
        assert.equal(await secrets.get('one', tx), 'text');
        throw new Error('no');
      });
      await assert.rejects(failing, /no/);
      assert.equal(await secrets.get('one'), undefined);
      assert.equal(await secrets.get('kept'), 'before');
    });
  });

  it('are made once, however many ask', async () => {
    await withSecrets(newDirectory(), {}, async (secrets) => {
      let made = 0;
      const asked = Array.from({ length: 10 }, () => secrets.getOrMake('one', () => `made ${++made}`));
      assert.deepEqual(new Set(await Promise.all(asked)), new Set(['made 1']));
    });
  });

  it('are in no file as they are, and never sealed twice alike', async () => {
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

  it('do not open where a bit was changed, or under another name', async () => {
    await withSecrets(newDirectory(), {}, async (secrets, store) => {
      await secrets.put('one', 'text');
      await secrets.put('two', 'other');
      const sealedOf = async (name: string) => (await rowsOf(store)).find((row) => row.name === name)?.sealed as string;
      const good = await sealedOf('one');
      const set = (sealed: string) =>
        store.db.updateTable('secrets').set({ sealed }).where('name', '=', 'one').execute();
      const bytes = Buffer.from(good, 'base64');
      for (let at = 0; at < bytes.length; at++) {
        const changed = Buffer.from(bytes);
        changed[at] = (changed[at] ?? 0) ^ 1;
        await set(changed.toString('base64'));
        await assert.rejects(secrets.get('one'), /"one" does not open/, `byte ${at}`);
      }
      for (const sealed of [await sealedOf('two'), '', 'AAAA', bytes.subarray(0, -1).toString('base64')]) {
        await set(sealed);
        await assert.rejects(secrets.get('one'), /"one" does not open/);
      }
      await set(good);
      assert.equal(await secrets.get('one'), 'text');
    });
  });

  it('give keys that are the same for a purpose, and differ between purposes and stores', async () => {
    const directory = newDirectory();
    const derive = (at: string) =>
      withSecrets(at, {}, async (secrets) => ['audit', 'pages'].map((one) => secrets.derive(one).toString('hex')));
    const first = await derive(directory);
    assert.deepEqual(await derive(directory), first);
    assert.equal(new Set([...first, ...(await derive(newDirectory()))]).size, 4);
    for (const key of first) assert.equal(key.length, 64);
  });
});

describe('the key', () => {
  const refused = (message: RegExp) => (error: unknown) => {
    assert.ok(error instanceof SecretKeyError, String(error));
    assert.match(error.message, message);
    return true;
  };

  it('is made in the data directory, for its owner alone', async () => {
    const { directory, requireWhole } = await prepared();
    assert.equal(statSync(keyPath(directory)).mode & 0o777, 0o600);
    assert.equal(Buffer.from(readFileSync(keyPath(directory), 'utf8').trim(), 'base64').length, 32);
    assert.deepEqual(
      readdirSync(directory).filter((name) => name.startsWith('secret')),
      ['secret.key'],
    );
    await requireWhole();
  });

  it('may be the same file in base64, base64url and hexadecimal', async () => {
    const { directory, requireWhole } = await prepared();
    const bytes = Buffer.from(readFileSync(keyPath(directory), 'utf8'), 'base64');
    for (const text of [bytes.toString('hex'), bytes.toString('base64url'), ` ${bytes.toString('base64')}\r\n`]) {
      writeFileSync(keyPath(directory), text);
      await requireWhole();
    }
  });

  it('may be elsewhere, or in the environment', async () => {
    const text = newKey();
    const keyFile = join(newDirectory(), 'key');
    writeFileSync(keyFile, text, { mode: 0o600 });
    const { directory, requireWhole } = await prepared({ keyFile });
    assert.equal(existsSync(keyPath(directory)), false);
    await requireWhole({ key: text });
    assert.equal(existsSync(keyPath(directory)), false);
  });

  it('that others can read is told', async () => {
    const { directory } = await prepared();
    const told = async () => {
      const seen: Observation[] = [];
      await withStore(directory, (store) =>
        openSecrets({ store, dataDirectory: directory, observe: (o) => void seen.push(o) }),
      );
      return seen;
    };
    assert.deepEqual(await told(), []);
    chmodSync(keyPath(directory), 0o644);
    assert.deepEqual(await told(), [{ kind: 'secretKeyExposed', keyFile: keyPath(directory) }]);
  });

  for (const [what, text] of Object.entries({
    nothing: ' ',
    'a passphrase': 'correct horse battery staple',
    '31 bytes': randomBytes(31).toString('base64'),
    '33 bytes': randomBytes(33).toString('base64'),
    '31 bytes in hexadecimal': randomBytes(31).toString('hex'),
    'two lines': `${newKey()}\n${newKey()}`,
    'too much': newKey().repeat(1000),
  }))
    it(`that is ${what} is refused, and not told`, async () => {
      const directory = newDirectory();
      const keyFile = join(directory, 'key');
      writeFileSync(keyFile, text);
      for (const place of [{ key: text }, { keyFile }])
        await assert.rejects(
          withSecrets(directory, place, async () => {}),
          (error: Error) => {
            refused(/must hold a key: 32 random bytes/)(error);
            return !error.message.includes(text.trim() || 'none') && error.message.length < 1000;
          },
        );
    });

  it('that is another one is refused, and nothing is changed', async () => {
    const { directory, requireWhole } = await prepared();
    const keyFile = join(newDirectory(), 'key');
    writeFileSync(keyFile, newKey());
    const nothing = async () => {};
    await assert.rejects(withSecrets(directory, { keyFile }, nothing), refused(/another key than .*key holds/));
    await assert.rejects(withSecrets(directory, { key: newKey() }, nothing), refused(/than TABULARIUM_SECRET_KEY/));
    await requireWhole();
  });

  it('that is gone is not made anew', async () => {
    const { directory } = await prepared();
    rmSync(keyPath(directory));
    await assert.rejects(
      withSecrets(directory, {}, async () => {}),
      refused(/secret\.key is not there/),
    );
    assert.equal(existsSync(keyPath(directory)), false);
  });

  it('in a file that is named and not there is not made', async () => {
    const directory = newDirectory();
    const keyFile = join(directory, 'nowhere');
    await assert.rejects(
      withSecrets(directory, { keyFile }, async () => {}),
      refused(/nowhere is not there/),
    );
    assert.equal(existsSync(keyFile), false);
  });
});

describe('another key', () => {
  it('takes the place of the old one, which opens nothing any more', async () => {
    const { directory, requireWhole } = await prepared();
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
    assert.deepEqual(readdirSync(directory).sort(), ['metadata.sqlite', 'secret.key']);
  });

  it('may be given by a file or the environment', async () => {
    const { directory, requireWhole } = await prepared();
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

  it('is given once, and somewhere', async () => {
    const key = newKey();
    const { directory, requireWhole } = await prepared({ key });
    await assert.rejects(rotate(directory, { key }), /give the new one in TABULARIUM_SECRET_KEY_NEW or/);
    await assert.rejects(rotate(directory, { key, nextKey: newKey(), newKeyFile: 'x' }), /given twice/);
    await assert.rejects(rotate(directory, { key, newKeyFile: join(directory, 'none') }), /is not there/);
    await assert.rejects(rotate(directory, { key, nextKey: 'short' }), /TABULARIUM_SECRET_KEY_NEW must hold/);
    await assert.rejects(rotate(directory, { key: newKey(), nextKey: newKey() }), /another key/);
    await requireWhole({ key });
  });

  it('is not taken where a secret does not open', async () => {
    const { directory } = await prepared();
    await withStore(directory, (store) =>
      store.db.updateTable('secrets').set({ sealed: 'AAAA' }).where('name', '=', 'one').execute(),
    );
    const before = readFileSync(keyPath(directory), 'utf8');
    await assert.rejects(rotate(directory), /"one" does not open.*nothing was done/);
    assert.equal(readFileSync(keyPath(directory), 'utf8'), before);
    await withSecrets(directory, {}, async (secrets) => assert.equal(await secrets.get('two'), 'the second'));
  });
});

describe('a change of the key that is broken off', () => {
  for (const step of rotationSteps)
    for (const given of [false, true])
      it(`before ${step}${given ? ', to a key that is given,' : ''} leaves a store that opens, and goes on`, async () => {
        const key = newKey();
        const nextKey = newKey();
        const place = given ? { key, nextKey } : {};
        const { directory, requireWhole } = await prepared(given ? { key } : {});
        const before = (at: string) => {
          if (at === step) throw new Error('broken off');
        };
        await assert.rejects(rotate(directory, { ...place, before }), /broken off/);
        await requireWhole(place);
        await assert.rejects(rotate(directory, { ...place, before }), /broken off/);
        await rotate(directory, place);
        await requireWhole(given ? { key: nextKey } : {});
      });

  it('before any statement of the store leaves a store that opens', async () => {
    const { directory, requireWhole } = await prepared();
    let broken = 0;
    for (let failAt = 1; ; failAt++) {
      let count = 0;
      const inject: Inject = ({ sql }) => {
        // Migration comes before, and is no part of it.
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

  it('leaves no key behind that is not used', async () => {
    const { directory, requireWhole } = await prepared();
    const before = (at: string) => {
      if (at === 'rows') throw new Error('broken off');
    };
    await assert.rejects(rotate(directory, { before }), /broken off/);
    assert.ok(existsSync(`${keyPath(directory)}.new`));
    await requireWhole();
    assert.deepEqual(readdirSync(directory).sort(), ['metadata.sqlite', 'secret.key']);
  });
});

describe('the command secrets rotate', () => {
  const run = (env: Record<string, string>, ...args: string[]): SpawnSyncReturns<string> =>
    spawnSync(process.execPath, [main, 'secrets', 'rotate', ...args], {
      encoding: 'utf8',
      env: { PATH: process.env.PATH ?? '', ...env },
    });

  it('gives another key, and says where it is', async () => {
    const { directory, requireWhole } = await prepared();
    const { status, stdout, stderr } = run({}, '--data-dir', directory);
    assert.equal(status, 0, stderr);
    assert.equal(
      stdout,
      `3 secrets are encrypted with the new key.\nIt is in ${keyPath(directory)}; back it up apart from the data.\n`,
    );
    await requireWhole();
  });

  it('takes keys from the environment, and shows none', async () => {
    const [key, nextKey] = [newKey(), newKey()];
    const { directory, requireWhole } = await prepared({ key });
    const env = { TABULARIUM_SECRET_KEY: key, TABULARIUM_SECRET_KEY_NEW: nextKey, TABULARIUM_DATA_DIR: directory };
    const { status, stdout, stderr } = run(env);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /Start the server with the new key in TABULARIUM_SECRET_KEY\./);
    const { stdout: help } = run(env, '--help');
    for (const text of [stdout, stderr, help]) for (const one of [key, nextKey]) assert.ok(!text.includes(one));
    await requireWhole({ key: nextKey });
  });

  it('says what is wrong without a stack', async () => {
    const empty = newDirectory();
    const nothing = run({}, '--data-dir', empty);
    assert.deepEqual([nothing.status, nothing.stdout], [2, '']);
    assert.match(nothing.stderr, /^\S+ holds no data of a server; --data-dir names another\n$/);
    assert.deepEqual(readdirSync(empty), []);
    const { directory, requireWhole } = await prepared();
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
    assert.match(other.stderr, /^the secrets of this store are sealed with another key .*\n$/);
    const twice = run({ TABULARIUM_SECRET_KEY: newKey() }, '--data-dir', directory, '--secret-key-file', 'x');
    assert.equal(twice.status, 2);
    assert.match(twice.stderr, /^TABULARIUM_SECRET_KEY and secretKeyFile both give the key/);
    await requireWhole();
  });

  it('alone has its flag; no key is a flag or in a file', async () => {
    const { directory } = await prepared();
    const serve = spawnSync(process.execPath, [main, '--new-key-file', 'x'], { encoding: 'utf8' });
    assert.equal(serve.status, 2);
    assert.match(serve.stderr, /^--new-key-file is a flag of the command "secrets rotate" only\n$/);
    assert.match(run({}, '--secret-key', newKey()).stderr, /^--secret-key is not a flag/);
    writeFileSync(join(directory, 'config.json'), JSON.stringify({ secretKey: newKey() }));
    assert.match(run({}, '--data-dir', directory).stderr, /has the key "secretKey", which is not one/);
  });
});
