// Passwords: the format of hashes, equal cost for missing users, concurrency limits, and the cache of verified passwords.
import assert from 'node:assert/strict';
import { argon2Sync } from 'node:crypto';
import { describe, it } from 'node:test';
import { needsRehash, Passwords, passwordFault } from '../../src/access/authentication/passwords.ts';

const password = 'correct horse battery staple';
const phcForm = /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/;
const limited = { name: 'Failure', code: 'RATE_LIMITED', retryAfterSeconds: 1 };

describe('a hash', () => {
  const passwords = new Passwords();

  it('is argon2id as a PHC string, with another salt each time', async () => {
    const [firstHash, secondHash] = [await passwords.hash(password), await passwords.hash(password)];
    assert.match(firstHash, phcForm);
    assert.notEqual(firstHash, secondHash);
    const [, , , , salt = '', tag = ''] = firstHash.split('$');
    const nonce = Buffer.from(salt, 'base64');
    const expectedPhc = argon2Sync('argon2id', {
      message: password,
      nonce,
      memory: 19_456,
      passes: 2,
      parallelism: 1,
      tagLength: 32,
    });
    assert.equal(expectedPhc.toString('base64').replace(/=+$/, ''), tag);
  });

  it('matches its password only', async () => {
    const phc = await passwords.hash(password);
    assert.equal(await passwords.check(phc, password), true);
    for (const wrong of ['', `${password} `, password.toUpperCase(), `${password}\0`])
      assert.equal(await passwords.check(phc, wrong), false, JSON.stringify(wrong));
  });

  it('matches however the letters were composed', async () => {
    const phc = await passwords.hash('Z\u00fcrich Stra\u00dfe');
    assert.equal(await passwords.check(phc, 'Zu\u0308rich Stra\u00dfe'), true);
  });

  it('with other parameters remains valid and is to be replaced', async () => {
    const salt = Buffer.alloc(16, 1);
    const tag = argon2Sync('argon2id', {
      message: password,
      nonce: salt,
      memory: 1024,
      passes: 3,
      parallelism: 2,
      tagLength: 16,
    });
    const text = (bytes: Buffer) => bytes.toString('base64').replace(/=+$/, '');
    const phc = `$argon2id$v=19$m=1024,t=3,p=2$${text(salt)}$${text(tag)}`;
    assert.equal(await passwords.check(phc, password), true);
    assert.equal(needsRehash(phc), true);
    assert.equal(needsRehash(await passwords.hash(password)), false);
  });

  const salt = 'A'.repeat(22);
  const tag = 'A'.repeat(43);
  for (const invalidPhc of [
    '',
    password,
    `$argon2i$v=19$m=19456,t=2,p=1$${salt}$${tag}`,
    `$argon2id$v=16$m=19456,t=2,p=1$${salt}$${tag}`,
    `$argon2id$v=19$m=999999,t=2,p=1$${salt}$${tag}`,
    `$argon2id$v=19$m=19456,t=99,p=1$${salt}$${tag}`,
    `$argon2id$v=19$m=7,t=2,p=1$${salt}$${tag}`,
    `$argon2id$v=19$m=19456,t=0,p=1$${salt}$${tag}`,
    `$argon2id$v=19$m=19456,t=2,p=1$${salt}$`,
    `$argon2id$v=19$m=19456,t=2,p=1$${salt}$${tag}\n`,
  ])
    it(`that is invalid, or requires too much, matches nothing: ${JSON.stringify(invalidPhc)}`, async () => {
      assert.equal(await passwords.check(invalidPhc, password), false);
      assert.equal(needsRehash(invalidPhc), true);
    });
});

describe('without a hash', () => {
  it('nothing matches, at the cost of a wrong password', async () => {
    const passwords = new Passwords({ runningMax: 1, waitingMax: 0 });
    const running = passwords.check(undefined, password);
    // No further one is admitted: the work is really done.
    await assert.rejects(async () => passwords.check(undefined, 'another'), limited);
    assert.equal(await running, false);
    assert.equal(passwords.isVerified(undefined, password), false);
  });
});

describe('a verified pair', () => {
  it('is accepted from the cache until it expires', async () => {
    let now = 1_000_000;
    const passwords = new Passwords({ clock: () => now, verifiedMs: 1000 });
    const phc = await passwords.hash(password);
    assert.equal(passwords.isVerified(phc, password), false);
    assert.equal(await passwords.check(phc, password), true);
    now += 999;
    assert.equal(passwords.check(phc, password), true);
    assert.equal(passwords.isVerified(phc, password), true);
    now += 1;
    assert.equal(passwords.isVerified(phc, password), false, 'asking did not make it longer');
    const secondCheck = passwords.check(phc, password);
    assert.ok(secondCheck instanceof Promise);
    assert.equal(await secondCheck, true);
  });

  it('does not match another password or another hash', async () => {
    const passwords = new Passwords();
    const phc = await passwords.hash(password);
    assert.equal(await passwords.check(phc, password), true);
    assert.ok(passwords.check(phc, `${password}x`) instanceof Promise);
    const changedHash = await passwords.hash('a new password');
    const old = passwords.check(changedHash, password);
    assert.ok(old instanceof Promise);
    assert.equal(await old, false);
  });

  it('is evicted when the cache is full, the oldest first', async () => {
    const passwords = new Passwords({ verifiedMax: 2 });
    const hashes = await Promise.all([1, 2, 3].map(() => passwords.hash(password)));
    for (const phc of hashes) assert.equal(await passwords.check(phc, password), true);
    assert.deepEqual(
      hashes.map((phc) => passwords.isVerified(phc, password)),
      [false, true, true],
    );
  });
});

describe('many verifications at once', () => {
  it('run a few at a time, wait in order, and are refused beyond the limit', async () => {
    const passwords = new Passwords({ runningMax: 2, waitingMax: 3 });
    const endOrder: number[] = [];
    const all = [0, 1, 2, 3, 4].map((i) => passwords.hash(password).then(() => endOrder.push(i)));
    await assert.rejects(passwords.hash(password), limited);
    await assert.rejects(async () => passwords.check(undefined, password), limited);
    await Promise.all(all);
    assert.deepEqual(endOrder.toSorted(), [0, 1, 2, 3, 4]);
    assert.ok(endOrder.indexOf(4) >= 3, 'the fifth begins when three have ended');
    assert.match(await passwords.hash(password), phcForm, 'places are free again');
  });

  it('of the same pair are computed once', async () => {
    const passwords = new Passwords({ runningMax: 1, waitingMax: 0 });
    const phc = await passwords.hash(password);
    const answers = await Promise.all(Array.from({ length: 100 }, () => passwords.check(phc, password)));
    assert.ok(answers.every((answer) => answer === true));
  });

  it('do not wait forever', async () => {
    const passwords = new Passwords({ runningMax: 1, waitMsMax: 0 });
    const running = Promise.all([passwords.hash(password)]);
    // Behind ten others, it times out before it is admitted.
    const waiting = Array.from({ length: 10 }, () => passwords.hash(password));
    const outcomes = await Promise.allSettled(waiting);
    await running;
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
    assert.ok(refused.length >= 9, `${refused.length} refused`);
    for (const { reason } of refused) assert.equal(reason.code, 'RATE_LIMITED');
    assert.match(await passwords.hash(password), phcForm);
  });

  it('that nobody waits for any more end without an error', async () => {
    const passwords = new Passwords({ runningMax: 1, waitingMax: 0 });
    const running = passwords.hash(password);
    void passwords.check(undefined, password);
    await running;
  });
});

describe('a new password', () => {
  const cases: [string, string, RegExp | undefined][] = [
    ['seven characters', '1234567', /at least 8/],
    ['eight characters', '12345678', undefined],
    ['four characters of two units each', '😀😀😀😀', /at least 8/],
    ['1024 characters', 'x'.repeat(1024), undefined],
    ['1025 characters', 'x'.repeat(1025), /at most 1024/],
    ['half a character', 'password\ud83d', /well-formed/],
    ['a NUL', 'pass\0word', /NUL/],
    ['the name of the user', 'Ada.Lovelace', /user name/],
    ['a space at its ends', ' 12345678 ', undefined],
    ['no digit', 'nothing else', undefined],
  ];
  for (const [description, text, fault] of cases)
    it(`with ${description} is ${fault ? 'refused' : 'accepted'}`, () => {
      const actualFault = passwordFault(text, 'ada.lovelace');
      if (fault) assert.match(actualFault ?? '', fault);
      else assert.equal(actualFault, undefined);
      assert.equal(new Passwords().fault(text, 'ada.lovelace'), actualFault);
    });
});
