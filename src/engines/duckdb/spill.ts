// Where one engine process spills what does not fit its memory.
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

/** A directory of this process alone: two that spill into one would write over each other. What the dead left is removed. */
export async function freshSpill(spoolDirectory: string): Promise<string> {
  const all = join(spoolDirectory, 'spill');
  await mkdir(all, { recursive: true, mode: 0o700 });
  for (const name of await readdir(all)) {
    if (!isAlive(Number(name))) await rm(join(all, name), { recursive: true, force: true });
  }
  // DuckDB makes it when it first spills.
  return join(all, String(process.pid));
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
