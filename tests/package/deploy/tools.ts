// The programs that check the files in deploy/: Docker Compose, Helm's library, the schemas of Kubernetes and yamllint, which PyPI has. They are
// in a virtual environment that .ci/run makes of requirements.txt.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { settings } from '../../../src/settings/server_settings.ts';
import { variableOf } from '../../../src/settings/setting_type.ts';
import { deadlineMs } from '../../deadline.ts';

export const root = resolve(import.meta.dirname, '../../..');
export const composeDirectory = join(root, 'deploy/compose');
export const chartDirectory = join(root, 'deploy/helm/tabularium');

const programs = join(import.meta.dirname, '.venv/bin');
/** The package's own command loses the exit status of the program. */
const compose = globSync(join(import.meta.dirname, '.venv/lib/python*/site-packages/compose/docker-compose'))[0];
const outputBytesMax = 64 * 1024 ** 2;

/** Why the files cannot be checked; false if they can. */
export const missingTools: string | false =
  compose === undefined &&
  'tests/package/deploy/.venv does not exist (python3 -m venv, then pip install -r requirements.txt)';

export interface ToolResult {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export function runTool(program: string, words: readonly string[], input = ''): ToolResult {
  const path = program === 'docker-compose' ? (compose ?? '') : join(programs, program);
  return spawnSync(path, words, {
    cwd: root,
    encoding: 'utf8',
    input,
    timeout: deadlineMs(60_000),
    maxBuffer: outputBytesMax,
  });
}

/** The standard output of a tool that must succeed. */
export function outputOf(program: string, words: readonly string[], input?: string): string {
  const { status, stdout, stderr } = runTool(program, words, input);
  assert.equal(status, 0, `${program} ${words.join(' ')}: ${stderr}${stdout}`);
  return stdout;
}

const variables = new Set(Object.keys(settings).map(variableOf));
/** Read by Node.js, and by Kubernetes to compute other variables. */
const otherVariables = new Set(['NODE_EXTRA_CA_CERTS', 'POD_NAME', 'POD_NAMESPACE']);

/** Fails for a variable that no part of the server reads. */
export function requireKnownVariables(names: readonly string[]): void {
  assert.ok(names.length > 0);
  for (const name of names) assert.ok(variables.has(name) || otherVariables.has(name), `${name} is not a setting`);
}
