// Writes a data directory of the release that is checked out, as described in data/README.md:
// `node tests/upgrade/write_data_directory.ts <archive>.tar.gz`. See content.ts for its content.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ServerProcess, startProcess } from '../server.ts';
import { content, hasRows } from './content.ts';

/** The process that a server started, identified as its child by the kernel. */
function engineOf(server: ServerProcess): number {
  const { pid } = server.child;
  const tasks = readdirSync(`/proc/${pid}/task`);
  const children = tasks.flatMap((task) => readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' '));
  const [engine] = children.map(Number).filter((child) => child > 0);
  if (engine === undefined) throw new Error('the server has no engine');
  return engine;
}

async function perform(server: ServerProcess, calls: typeof content.inFile): Promise<void> {
  for (const [method, path, body] of calls) {
    const { status, text } = await server.request(method, path, { body });
    if (status >= 300) throw new Error(`${method} ${path}: ${text}`);
  }
}

const archive = process.argv[2];
if (archive === undefined) throw new Error('usage: write_data_directory.ts <archive>.tar.gz');
const directory = await mkdtemp(join(tmpdir(), 'tabularium-release-'));
const first = await startProcess([], directory);
await perform(first, content.inFile);
await first.close();
const second = await startProcess([], directory);
await perform(second, content.inLog);
for (const [sql, rows] of content.answers) {
  const { text } = await second.query('kept', sql);
  if (!hasRows(text, rows)) throw new Error(`${sql}: ${text}`);
}
process.kill(engineOf(second), 'SIGKILL');
second.child.kill('SIGKILL');
await second.exited;
execFileSync('tar', ['-czf', archive, '--owner=0', '--group=0', '-C', directory, '.']);
rmSync(directory, { recursive: true });
