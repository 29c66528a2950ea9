// The thread that cuts pieces out of files: a piece is rejected at once when the thread has ended or the backup is cancelled.
import assert from 'node:assert/strict';
import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Pieces } from '../../src/backups/pieces.ts';
import { deadlineMs } from '../deadline.ts';

const options = { timeout: deadlineMs(20_000) };

describe('the thread that cuts pieces', () => {
  let root: string;
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'tabularium-pieces-'));
  });
  after(() => rm(root, { recursive: true, force: true }));

  it('refuses a piece after it has ended', options, async () => {
    const pieces = new Pieces(new AbortController().signal);
    await pieces.stop();
    await assert.rejects(pieces.cut({ from: 'any', start: 0, bytes: 1, to: join(root, 'none') }), /has ended/);
  });

  it('stops in the middle of a piece when the backup is cancelled', options, async () => {
    const from = join(root, 'large');
    const bytes = 2 ** 31;
    await writeFile(from, '');
    await truncate(from, bytes);
    const cancel = new AbortController();
    const pieces = new Pieces(cancel.signal);
    const pieceFile = pieces.cut({ from, start: 0, bytes, to: join(root, 'piece') });
    const reason = new Error('cancelled');
    cancel.abort(reason);
    const isReason = (error: unknown) => error === reason;
    await assert.rejects(pieceFile, isReason);
    await assert.rejects(pieces.cut({ from, start: 0, bytes: 1, to: join(root, 'next') }), isReason);
    await pieces.stop();
  });
});
