// The systemd unit of deploy/: the command that it runs exists with these flags, and it stops the server as the server expects.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { readSettings } from '../../src/settings.ts';

const unit = readFileSync(new URL('../../deploy/tabularium.service', import.meta.url), 'utf8');
const setting = (key: string): string => new RegExp(`^${key}=(.*)$`, 'm').exec(unit)?.[1] ?? '';

test('the unit starts the package with flags that exist, in the directory that it prepares', () => {
  const [program, command, ...flags] = setting('ExecStart').split(' ');
  assert.match(program as string, /^\/opt\/tabularium\/node_modules\/\.bin\/tabularium$/);
  assert.equal(command, 'serve');
  assert.equal(readSettings(flags, {}).dataDir, `/var/lib/${setting('StateDirectory')}`);
});

test('the unit leaves the server more time to stop than it takes, and signals the server alone', () => {
  assert.ok(Number(setting('TimeoutStopSec')) * 1000 > readSettings([], {}).shutdownTimeoutMs);
  assert.equal(setting('KillMode'), 'mixed');
});
