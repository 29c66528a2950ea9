// A request with an idempotency key was repeated after a crash, ran while the change that the crash had interrupted was recovered, and
// was refused because the object already had another name. The refusal was stored. So was a refusal that only asked to retry later.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { AuditTrail } from '../../../src/access/audit/audit_log.ts';
import { IdempotencyKeys } from '../../../src/access/idempotency_keys.ts';
import { type Completed, IdempotentRequests } from '../../../src/http/idempotency/replay.ts';
import type { Guard } from '../../../src/model/principal.ts';
import type { Code } from '../../../src/standard/codes.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { openSqliteStore } from '../../../src/store/sqlite/sqlite_store.ts';

const responseWith = (text: string) => ({ status: 200 as const, headers: {}, body: [JSON.stringify({ text })] });
const textOf = ({ body }: { readonly body: readonly unknown[] }) => body.join('');

test('a key whose change was completed by recovery is answered with the result; a transient refusal is retried', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-keys-'));
  const store = await openSqliteStore({ file: join(directory, 'store.db') });
  t.after(async () => {
    await store.close();
    rmSync(directory, { recursive: true });
  });
  const keys = new IdempotencyKeys(store);
  const audit = new AuditTrail({
    store,
    serverId: 'one',
    key: new Uint8Array(32),
    retentionDays: 1,
    observe: () => undefined,
  });
  const noWork = { recover: async () => {}, rowsOf: async () => undefined };
  const respondTo = (key: string, run: () => Promise<Completed['response']>) =>
    // A separate server each time: the running changes of another one are unknown to it.
    new IdempotentRequests(keys, noWork).respond({
      owner: 'o',
      key,
      fingerprint: 'f',
      secretFields: [],
      granted: [],
      authorize: async () => {},
      run: async () => {
        const first = await run();
        return { response: first, stored: first };
      },
      again: async (_guard, objectId) => responseWith(`made: ${objectId}`),
    });
  const refuse = (code: Code) => async () => {
    throw new Failure(code, 'no');
  };
  /** Recovery completes the change for whichever attempt of the request. */
  const complete = (guard: Guard, objectId: string) => {
    const { attempt: _, ...any } = guard;
    return store.transaction((tx) => audit.markKeyDone(tx, any, objectId));
  };
  const failIfRun = async () => assert.fail('it ran again');

  // The crash comes before the response; the interrupted change is recovered while the request runs again.
  const { guard } = (await keys.begin('o', 'crashed', 'f')) as { readonly guard: Guard };
  const recover = async () => {
    setTimeout(() => void complete(guard, 'x'), 100);
    throw new Failure('OBJECT_NOT_FOUND', 'it is called otherwise by now');
  };
  assert.equal(textOf(await respondTo('crashed', recover)), '{"text":"made: x"}');
  assert.equal(textOf(await respondTo('crashed', failIfRun)), '{"text":"made: x"}');

  // It is still running.
  const { guard: slow } = (await keys.begin('o', 'slow', 'f')) as { readonly guard: Guard };
  await assert.rejects(respondTo('slow', refuse('CHANGE_IN_PROGRESS')), { code: 'CHANGE_IN_PROGRESS' });
  await complete(slow, 'y');
  assert.equal(textOf(await respondTo('slow', failIfRun)), '{"text":"made: y"}');

  for (const [code, isKept] of [
    ['CHANGE_IN_PROGRESS', false],
    ['WAREHOUSE_FAILED', false],
    ['OBJECT_NOT_FOUND', true],
  ] as const) {
    await assert.rejects(respondTo(code, refuse(code as Code)), { code });
    if (isKept) assert.match(textOf(await respondTo(code, failIfRun)), /OBJECT_NOT_FOUND/);
    else assert.equal(textOf(await respondTo(code, async () => responseWith('now'))), '{"text":"now"}');
  }
});
