// Completion in the shells themselves: of commands, options, their values, files and the names of profiles.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { positionsOf } from '../../../src/cli/remote/completion/positions.ts';
import { newProgram, unused } from '../../../src/cli/remote/program.ts';
import { eventually } from '../../deadline.ts';
import { type CommandLine, main, newCommandLine } from './command_process.ts';

let line: CommandLine;
let env: NodeJS.ProcessEnv;

before(async () => {
  line = newCommandLine();
  const bin = join(line.directory, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'tabularium'), `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`);
  chmodSync(join(bin, 'tabularium'), 0o755);
  env = { ...line.env, PATH: `${bin}:${line.env.PATH}`, HOME: line.directory, TERM: 'xterm' };
  mkdirSync(join(line.directory, 'config/tabularium'), { recursive: true });
  const profile = { url: 'http://127.0.0.1:9', token: 'x', user: 'ada' };
  const profiles = { current: 'default', profiles: { default: profile, staging: profile, 'old-staging': profile } };
  writeFileSync(join(line.directory, 'config/tabularium/profiles.json'), JSON.stringify(profiles));
  for (const name of ['orders of may.csv', 'orders.ndjson']) writeFileSync(join(line.directory, name), '');
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { code, stdout } = await line.run(['completion', shell]);
    assert.equal(code, 0);
    writeFileSync(join(line.directory, `completion.${shell}`), stdout);
  }
});
after(() => line.remove());

/** What is typed, and the only word that it can become, or those that are offered. */
const cases: readonly (readonly [string, readonly string[]])[] = [
  ['tabularium wareh', ['warehouses']],
  ['tabularium doc', ['doctor']],
  ['tabularium backup ', ['--help', 'server', 'verify']],
  ['tabularium tables copy', ['copy-definition']],
  ['tabularium tables list --datab', ['--database']],
  ['tabularium tables list --database shop --tok', ['--token-file']],
  ['tabularium audit verify --data', ['--data-dir']],
  ['tabularium sql --format m', ['markdown']],
  ['tabularium sql --profile s', ['staging']],
  ['tabularium profiles old', ['old-staging']],
  ['tabularium completion z', ['zsh']],
  ['tabularium load orders.n', ['orders.ndjson']],
  ['tabularium load orders\\ of', ['orders of may.csv']],
  ['tabularium sql --file orders.n', ['orders.ndjson']],
];
const skippedWithout = (shell: string) =>
  spawnSync(shell, ['--version']).status === 0 ? false : `${shell} is not installed (apt-get install ${shell})`;
/** Options of a command without a dash before the cursor are offered by bash only. */
const words = (list: string) =>
  list
    .split('\n')
    .filter((word) => word !== '' && word !== '--help')
    .sort();

it('offers each command and option', async () => {
  const positions = new Map(
    positionsOf(await newProgram({}, unused)).map(({ after, words }) => [after, words.map(({ word }) => word)]),
  );
  for (const word of ['tables', 'serve', 'audit', 'conform']) assert.ok(positions.get('')?.includes(word), word);
  assert.ok(positions.get('tables')?.includes('copy-definition'));
  assert.ok(positions.get('tables create')?.includes('--primary-key'));
  assert.ok(positions.get('check')?.includes('--repair'));
});

it('bash', { skip: skippedWithout('bash') }, () => {
  for (const [typed, expected] of cases) {
    const script = `source completion.bash; eval "COMP_WORDS=($1)"; [[ $1 == *" " ]] && COMP_WORDS+=(""); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _tabularium; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const offered = execFileSync('bash', ['-c', script, 'bash', typed], { cwd: line.directory, env, encoding: 'utf8' });
    assert.deepEqual(
      words(offered),
      expected.filter((word) => word !== '--help'),
      typed,
    );
  }
});

it('fish', { skip: skippedWithout('fish') }, () => {
  for (const [typed, expected] of cases) {
    const script = `source completion.fish; complete -C "$argv[1]"`;
    const offered = execFileSync('fish', ['--no-config', '-c', script, typed], {
      cwd: line.directory,
      env,
      encoding: 'utf8',
    });
    const names = words(offered.replaceAll(/\t.*/g, '').replaceAll('\\ ', ' '));
    assert.deepEqual(
      names,
      expected.filter((word) => word !== '--help'),
      typed,
    );
  }
});

describe('zsh, on a terminal', { skip: skippedWithout('zsh') || skippedWithoutTmux() }, () => {
  const tmux = (...given: string[]) =>
    execFileSync('tmux', ['-S', join(line.directory, 'tmux'), ...given], {
      cwd: line.directory,
      env,
      encoding: 'utf8',
    });
  const screen = () => tmux('capture-pane', '-p', '-J');
  const shows = (text: string) =>
    eventually(`the terminal shows ${text}`, () => screen().includes(text)).catch((error: Error) => {
      throw new Error(`${error.message}\n${screen()}`);
    });

  before(async () => {
    tmux('-f', '/dev/null', 'new-session', '-d', '-x', '150', '-y', '40', '-c', line.directory, 'zsh -f');
    tmux('send-keys', "PS1='ready> '; autoload -U compinit; compinit -u -D; source completion.zsh", 'Enter');
    await eventually('zsh is ready', () => /^ready> $/m.test(`${screen().trimEnd()} `));
  });
  after(() => void spawnSync('tmux', ['-S', join(line.directory, 'tmux'), 'kill-server'], { env }));

  for (const [typed, expected] of cases)
    it(`${typed}<Tab>`, async () => {
      tmux('send-keys', 'C-u', 'C-l');
      tmux('send-keys', '-l', '--', typed);
      tmux('send-keys', 'Tab');
      const [only = '', ...others] = expected;
      if (others.length > 0) for (const word of others) await shows(word);
      else await shows(only.replaceAll(' ', '\\ '));
    });
});

function skippedWithoutTmux(): string | false {
  return spawnSync('tmux', ['-V']).status === 0 ? false : 'tmux is not installed (apt-get install tmux)';
}
