// Benchmarks still run: a sample of them with `--quick`. The figures of so short a run mean nothing and are not compared.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { it } from 'node:test';
import { promisify } from 'node:util';
import { sampled } from '../budget.ts';
import { deadlineMs } from '../deadline.ts';
import { missingRing } from '../engines/clickhouse/ring/ring.ts';
import { missingPostgresql } from '../postgresql.ts';

const root = join(import.meta.dirname, '..', '..');
/**
 * `against` takes another checkout, `peers` installs another server, and the console has its own tests in a browser. The others write
 * gigabytes or are long even with `--quick`.
 */
const withoutSample = ['run', 'against', 'peers', 'console', 'load', 'export', 'overload'];
if (missingPostgresql) withoutSample.push('several_servers');
if (missingRing) withoutSample.push('clickhouse', 'clickhouse_load', 'move', 'backup');
const names = readdirSync(join(root, 'bench'))
  .filter((file) => file.endsWith('.ts'))
  .map((file) => basename(file, '.ts'))
  .filter((name) => !withoutSample.includes(name));

it('a benchmark runs and prints its measures', async (t) => {
  for (const name of sampled(t, 5, names)) {
    const script = [join('bin', 'runtime.js'), join('bench', 'run.ts'), '--quick', name];
    const { stdout } = await promisify(execFile)(process.execPath, script, { cwd: root, timeout: deadlineMs(100_000) });
    const measures = stdout.split('\n').filter((line) => line.startsWith('| ') && !/^\| (?:what|---)/.test(line));
    assert.ok(measures.length > 0, `${name}: ${stdout}`);
    for (const measure of measures) assert.doesNotMatch(measure, /NaN|undefined|Infinity/, `${name}: ${measure}`);
  }
});
