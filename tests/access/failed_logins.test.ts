// Failed logins with a controlled clock: what is delayed, and who must not be.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FailedLoginsInMemory, loginKeysMax } from '../../src/access/authentication/failed_logins.ts';
import { attemptsAtOnceMax, type FailedLoginSettings } from '../../src/access/authentication/login_rules.ts';
import { networkOf } from '../../src/http/connection/client_address.ts';
import { readSettings } from '../../src/settings/read_settings.ts';
import { Failure } from '../../src/standard/failure.ts';

const defaults: FailedLoginSettings = readSettings([], {});

class LoginSetup {
  readonly logins: FailedLoginsInMemory;
  ms = 5_000_000;

  constructor(settings: Partial<FailedLoginSettings> = {}) {
    this.logins = new FailedLoginsInMemory({ settings: { ...defaults, ...settings }, networkOf, clock: () => this.ms });
  }

  /** The required wait in seconds; 0 if the attempt was made and ended as given. */
  attempt(address: string, user: string | undefined, isGood: boolean): number {
    try {
      this.logins.beginAttempt(address, user);
    } catch (error) {
      assert.ok(error instanceof Failure && error.code === 'RATE_LIMITED', String(error));
      const seconds = error.retryAfterSeconds as number;
      assert.ok(Number.isInteger(seconds) && seconds >= 1, String(seconds));
      assert.deepEqual(error.result, { limit: 'failed logins', retryAfterSeconds: seconds });
      return seconds;
    }
    if (isGood) this.logins.recordSuccess(address, user as string);
    else this.logins.recordFailure(address, user);
    return 0;
  }

  guessPassword = (address: string, user?: string) => this.attempt(address, user, false);
  login = (address: string, user: string) => this.attempt(address, user, true);
  advanceSeconds(seconds: number): void {
    this.ms += seconds * 1000;
  }
}

const stranger = (i: number) => `198.${18 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`;

describe('failed logins', () => {
  it('slow down a pair of user and address: 1, 2, 4 and so on up to a minute', () => {
    const setup = new LoginSetup();
    for (let i = 0; i < 6; i++) assert.equal(setup.guessPassword('192.0.2.1', 'ann'), 0);
    const waits: number[] = [];
    for (let i = 0; i < 8; i++) {
      const seconds = setup.guessPassword('192.0.2.1', 'ann');
      waits.push(seconds);
      setup.advanceSeconds(seconds - 0.001);
      assert.equal(setup.guessPassword('192.0.2.1', 'ann'), 1, 'not before its time');
      setup.advanceSeconds(0.001);
      assert.equal(setup.guessPassword('192.0.2.1', 'ann'), 0, `after ${seconds} s`);
    }
    assert.deepEqual(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    assert.equal(setup.login('192.0.2.2', 'ann'), 0, 'from elsewhere');
    assert.equal(setup.login('192.0.2.1', 'bob'), 0, 'as somebody else');
  });

  it('are reset by a success, and expire', () => {
    const setup = new LoginSetup();
    for (let i = 0; i < 5; i++) setup.guessPassword('192.0.2.1', 'ann');
    assert.equal(setup.login('192.0.2.1', 'ann'), 0);
    for (let i = 0; i < 6; i++) assert.equal(setup.guessPassword('192.0.2.1', 'ann'), 0, 'after a success');
    assert.notEqual(setup.guessPassword('192.0.2.1', 'ann'), 0);
    setup.advanceSeconds(defaults.failedLoginsWindowSeconds * 1.3);
    for (let i = 0; i < 6; i++) assert.equal(setup.guessPassword('192.0.2.1', 'ann'), 0);
  });

  it('slow down an address that tries many users or tokens, whatever its own successes', () => {
    for (const named of [true, false]) {
      const setup = new LoginSetup();
      let attempts = 0;
      for (let second = 0; second < 3600; second++, setup.advanceSeconds(1))
        for (let i = 0; i < 10; i++) {
          if (setup.guessPassword('192.0.2.1', named ? `user${second * 10 + i}` : undefined) === 0) attempts++;
          // The attacker has a user too.
          if (named) setup.login('192.0.2.1', 'mallory');
        }
      assert.ok(attempts >= 31 && attempts < 31 + 4 * 35, `${attempts} attempts in an hour`);
      assert.equal(setup.guessPassword('192.0.2.2', 'ann'), 0, 'others are not slowed down');
    }
  });

  it('count IPv6 addresses by /64', () => {
    const setup = new LoginSetup();
    for (let i = 0; i < 40; i++) setup.guessPassword(`2001:db8::${i.toString(16)}`);
    assert.notEqual(setup.guessPassword('2001:db8::ffff'), 0);
    assert.equal(setup.guessPassword('2001:db8:0:1::1'), 0);
  });

  it('of many clients of one network do not affect users who have logged in from there', () => {
    const setup = new LoginSetup();
    assert.equal(setup.login('192.0.2.1', 'ann'), 0);
    for (let i = 0; i < 500; i++) setup.guessPassword('192.0.2.1', `user${i}`);
    assert.notEqual(setup.login('192.0.2.1', 'bob'), 0, 'a user never seen there waits');
    assert.equal(setup.login('192.0.2.1', 'ann'), 0);
  });

  it('let many clients of one network log in at the same moment, but admit no guesses while one is in progress', () => {
    const setup = new LoginSetup();
    for (let i = 0; i < attemptsAtOnceMax; i++) setup.logins.beginAttempt('192.0.2.1', 'ann');
    assert.throws(() => setup.logins.beginAttempt('192.0.2.1', 'ann'), { code: 'RATE_LIMITED' });
    for (let i = 0; i < attemptsAtOnceMax; i++) setup.logins.recordSuccess('192.0.2.1', 'ann');
    setup.logins.beginAttempt('192.0.2.1', 'ann');
    // After failures, only as many concurrent attempts are admitted as are still free.
    for (let i = 0; i < 3; i++) setup.guessPassword('192.0.2.7', 'bob');
    setup.logins.beginAttempt('192.0.2.7', 'bob');
    setup.logins.beginAttempt('192.0.2.7', 'bob');
    assert.throws(() => setup.logins.beginAttempt('192.0.2.7', 'bob'), { code: 'RATE_LIMITED', retryAfterSeconds: 1 });
    // An attempt without an outcome does not count as in progress forever.
    setup.advanceSeconds(31);
    assert.equal(setup.login('192.0.2.7', 'bob'), 0);
  });
});

describe('an attack on one user from 1,000 addresses', () => {
  /** Each attacker tries again as soon as it may; returns the number of guesses. */
  function attackFor(
    setup: LoginSetup,
    seconds: number,
    from: Map<string, number>,
    atEachSecond?: (second: number) => void,
  ): number {
    let attempts = 0;
    for (let second = 0; second < seconds; second++, setup.advanceSeconds(1)) {
      atEachSecond?.(second);
      for (const [address, time] of from) {
        if (time > setup.ms) continue;
        const wait = setup.guessPassword(address, 'ann');
        if (wait === 0) attempts++;
        from.set(address, setup.ms + wait * 1000);
      }
    }
    return attempts;
  }
  const strangerBuckets = () => new Map(Array.from({ length: 1000 }, (_, i) => [stranger(i), 0]));

  it('does not affect the user at known addresses', () => {
    const setup = new LoginSetup();
    setup.login('192.0.2.1', 'ann');
    let logins = 0;
    attackFor(setup, 600, strangerBuckets(), (second) => {
      if (second % 10 > 0) return;
      assert.equal(setup.login('192.0.2.1', 'ann'), 0);
      logins++;
    });
    assert.equal(logins, 60);
  });

  it('can make few guesses', () => {
    const setup = new LoginSetup();
    const attempts = attackFor(setup, 3600, strangerBuckets());
    assert.ok(
      attempts <= defaults.failedLoginsPerUserMax + 1 + 61 * defaults.unknownAddressLoginsPerMinuteMax,
      `${attempts} guesses`,
    );
  });

  it('lets the user in from an unknown address after a bounded wait', () => {
    const setup = new LoginSetup();
    const from = strangerBuckets();
    const requestFrom = (address: string) => {
      let waited = 0;
      let now = 0;
      let isIn = false;
      attackFor(setup, 4000, from, () => {
        if (isIn || now > setup.ms) return;
        const wait = setup.login(address, 'ann');
        waited += wait;
        isIn = wait === 0;
        now = setup.ms + wait * 1000;
      });
      assert.ok(isIn);
      return waited;
    };
    attackFor(setup, 60, from);
    // All attackers may be ahead in the queue of newcomers, at 15 a minute, but only an hour of them.
    const first = requestFrom('192.0.2.1');
    assert.ok(first <= 3700 + 60, `${first} s`);
    // By now all have failed before, and the queue of newcomers is empty.
    attackFor(setup, 600, from);
    const laterRequest = requestFrom('192.0.2.2');
    assert.ok(laterRequest <= 60, `${laterRequest} s`);
  });

  it('does not affect other users, and has no effect after it ends', () => {
    const setup = new LoginSetup();
    attackFor(setup, 300, strangerBuckets());
    assert.equal(setup.login('192.0.2.1', 'bob'), 0);
    setup.advanceSeconds(4000);
    assert.equal(setup.login('192.0.2.3', 'ann'), 0);
  });

  it('looks the same for users that exist and users that do not', () => {
    // The module knows only names, so the same attack on any two names gets the same answers.
    const answers = ['ann', 'nobody'].map((user) => {
      const setup = new LoginSetup();
      return Array.from({ length: 200 }, (_, i) => setup.guessPassword(stranger(i % 150), user));
    });
    assert.deepEqual(answers[0], answers[1]);
  });
});

describe('the memory of failed logins', () => {
  it('is bounded, and retains the most failures', () => {
    const setup = new LoginSetup();
    for (let i = 0; i < 20; i++) setup.guessPassword('192.0.2.1', 'ann');
    for (let i = 0; i < 2 * loginKeysMax; i++) setup.guessPassword(stranger(i), `user${i}`);
    assert.ok(setup.logins.size <= 3 * loginKeysMax);
    assert.notEqual(setup.guessPassword('192.0.2.1', 'ann'), 0);
  });

  it('prolongs no wait when the clock is set back', () => {
    const setup = new LoginSetup();
    for (let i = 0; i < 8; i++) setup.guessPassword('192.0.2.1', 'ann');
    setup.login('192.0.2.5', 'ann');
    setup.advanceSeconds(-86_400);
    assert.equal(setup.guessPassword('192.0.2.1', 'ann'), 1);
    setup.advanceSeconds(1);
    assert.equal(setup.login('192.0.2.1', 'ann'), 0);
    assert.equal(setup.login('192.0.2.5', 'ann'), 0);
  });

  it('treats an address as known for a day', () => {
    for (const [hours, wait] of [
      [23.9, 0],
      [24, 1],
    ] as const) {
      const expiredHouse = new LoginSetup({ failedLoginsPerAddressMax: 1 });
      expiredHouse.login('192.0.2.1', 'ann');
      expiredHouse.advanceSeconds(hours * 3600);
      for (let i = 0; i < 2; i++) expiredHouse.guessPassword('192.0.2.1', `user${i}`);
      assert.equal(expiredHouse.login('192.0.2.1', 'ann'), wait, `${hours} h`);
    }
  });
});
