// A platform that is too busy for the trials of the first start: the measures are off for that engine only, and the next start repeats the
// trials. In a separate file, because a process caches the results of the trials.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Confinement } from '../../src/engines/duckdb/sandbox/sandbox.ts';
import { eventually, spentMs } from '../deadline.ts';

const { PATH: path = '' } = process.env;
const directory = mkdtempSync(join(tmpdir(), 'tabularium-busy-'));
const busyDirectory = join(directory, 'busy');
const places = { data: join(directory, 'data'), writable: [join(directory, 'data/catalogs')] };

before(() => {
  // `unshare` hangs while the file exists.
  const realUnshare = execFileSync('/bin/sh', ['-c', 'command -v unshare || echo false'], { encoding: 'utf8' }).trim();
  const script = `#!/bin/sh\nif [ -e '${busyDirectory}' ]; then exec sleep 60; fi\nexec ${realUnshare} "$@"\n`;
  writeFileSync(join(directory, 'unshare'), script, { mode: 0o700 });
  writeFileSync(busyDirectory, '');
  process.env.PATH = `${directory}:${path}`;
});
after(() => {
  process.env.PATH = path;
  rmSync(directory, { recursive: true, force: true });
});

test('a trial that timed out is repeated at the next start of an engine', async (t) => {
  if (process.platform !== 'linux') return t.diagnostic('not Linux');
  const confinement = new Confinement('auto', spentMs(500));
  const reasonsNow = async () => (await confinement.launch(places)).confinement.map(({ reason }) => reason);
  assert.match(String((await reasonsNow())[0]), /timed out/);
  rmSync(busyDirectory);
  const reasons = await eventually('trials that end', async () => {
    const now = await reasonsNow();
    return /timed out/.test(now.join()) ? undefined : now;
  });
  // The results are cached then: a later start does not repeat the trials.
  writeFileSync(busyDirectory, '');
  assert.deepEqual(await reasonsNow(), reasons);
});
