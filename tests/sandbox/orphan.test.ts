// A server that is killed while its engine starts leaves no process running, at whatever moment it is killed.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../deadline.ts';

const sandbox = import.meta.resolve('../../src/engines/duckdb/sandbox/sandbox.ts');
/** Starts a confined command, stops it before it has asked the kernel to end it with its parent, and prints its id. */
const server = `
  import { spawn } from 'node:child_process';
  import { confinedCommand } from ${JSON.stringify(sandbox)};
  const [, data] = process.argv;
  const { command, args } = confinedCommand({ data, writable: [data] }, ['sleep', '3600']);
  const { pid } = spawn(command, args, { stdio: 'inherit' });
  process.kill(pid, 'SIGSTOP');
  console.log(pid);
  setInterval(() => undefined, 1000);
`;

const stateOf = (pid: number) => /^State:\s(\w)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];

test('an engine whose server is killed before the engine is confined does not start', async (t) => {
  if (process.platform !== 'linux') return t.skip('namespaces are Linux’s');
  const data = mkdtempSync(join(tmpdir(), 'tabularium-orphan-'));
  t.after(() => rmSync(data, { recursive: true, force: true }));
  const parent = spawn(process.execPath, ['--input-type=module', '-e', server, data], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const pid = await new Promise<number>((resolve) => parent.stdout.once('data', (text) => resolve(Number(text))));
  t.after(() => {
    parent.kill('SIGKILL');
    if (existsSync(`/proc/${pid}`)) process.kill(pid, 'SIGKILL');
  });
  await eventually('the stop', () => stateOf(pid) === 'T');
  const exited = new Promise((resolve) => parent.once('exit', resolve));
  parent.kill('SIGKILL');
  await exited;
  process.kill(pid, 'SIGCONT');
  await eventually('the end of the engine', () => !existsSync(`/proc/${pid}`) || stateOf(pid) === 'Z');
});
