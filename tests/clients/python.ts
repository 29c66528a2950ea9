// Python with the packages of requirements.txt, in a virtual environment that .ci/run makes.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { deadlineMs } from '../deadline.ts';
import { generatorsDirectory } from './client_programs.ts';

export const python = join(generatorsDirectory, '.venv/bin/python');

/** The reason to skip tests that need these packages; false if they are installed. */
export function skipWithout(...packages: readonly string[]): string | false {
  const names = packages.join(', ');
  const isInstalled =
    existsSync(python) && spawnSync(python, ['-c', `import ${names}`], { timeout: deadlineMs(60_000) }).status === 0;
  return !isInstalled && `Python has not all of ${names} in tests/clients/.venv`;
}
