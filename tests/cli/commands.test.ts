// The selection of a command by the words before the flags, and the program's messages about commands.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type Command, commandOf, helpWords } from '../../src/cli/command.ts';
import { describedLocally } from '../../src/cli/commands.ts';

const program = join(import.meta.dirname, '../../src/main.ts');
const run = (...args: string[]) => spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' });
const commandNamed = (name: string): Command => ({
  name,
  doc: 'Does it.',
  examples: [],
  settings: [],
  run: async () => undefined,
});
const commands = ['serve', 'secrets rotate'].map(commandNamed);

describe('the command', () => {
  const cases: [string[], string, string[]][] = [
    [[], 'serve', []],
    [['serve'], 'serve', []],
    [['--port', '1'], 'serve', ['--port', '1']],
    [['serve', '-h'], 'serve', ['-h']],
    [['secrets', 'rotate', '--data-dir', 'x'], 'secrets rotate', ['--data-dir', 'x']],
  ];
  for (const [argv, name, flags] of cases)
    it(`of ${JSON.stringify(argv)} is ${name}`, () => {
      const command = commandOf(argv, commands);
      assert.deepEqual([command.command.name, command.flags], [name, flags]);
    });

  const related: Readonly<Record<string, string>> = { serve: 'serve', secrets: 'secrets rotate' };
  for (const argv of [['server'], ['secrets'], ['rotate', 'secrets'], ['serve', 'now']])
    it(`of ${JSON.stringify(argv)} is refused, and those of its first word are named`, () =>
      assert.throws(() => commandOf(argv, commands), {
        name: 'SettingsError',
        message: `"${argv.join(' ')}" is not a command; commands are: ${related[argv[0] as string] ?? 'serve, secrets rotate'} (see --help)`,
      }));

  it('of a request for help is asked for it, whatever its flags are', () => {
    assert.deepEqual(helpWords(['secrets', 'rotate', '--port', '1', '-h']), ['secrets', 'rotate', '--help']);
    assert.deepEqual(helpWords(['--help']), ['--help']);
  });
});

describe('a command with an argument', () => {
  const verify = { ...commandNamed('backup verify'), argument: 'place' };
  const all = [...commands, verify];

  it('gets it, and the flags after it', () => {
    const command = commandOf(['backup', 'verify', '/a b', '--sweep'], all);
    assert.deepEqual([command.command, command.argument, command.flags], [verify, '/a b', ['--sweep']]);
  });

  it('is refused without the argument, or with two', () => {
    const message = 'backup verify requires a place before the flags (see --help)';
    assert.throws(() => commandOf(['backup', 'verify', '--sweep'], all), { name: 'SettingsError', message });
    assert.throws(() => commandOf(['backup', 'verify', 'a', 'b'], all), /is not a command/);
  });
});

describe('the program', () => {
  it('refuses an unknown command, and says where the known ones are', () => {
    const { status, stderr } = run('server');
    assert.equal(status, 2);
    assert.match(stderr, /^error: unknown command 'server'\n(.*\n)*tabularium --help lists the commands\n$/);
  });

  it('lists the commands', () => {
    const { status, stdout } = run('--help');
    assert.equal(status, 0);
    assert.match(
      stdout,
      /\nCommands on the machine of the server:\n {2}serve .*\n(.*\n)+ {2}secrets .*\n(.*\n)+Exit codes:\n {4}0 {2}/,
    );
  });

  // Each command but `serve`, whose type demands no answer of it.
  for (const { name, argument } of describedLocally().filter((command) => command.name !== 'serve'))
    it(`writes only JSON for "${name} --json", also if it fails`, () => {
      const nowhere = join(tmpdir(), 'tabularium-without-data');
      const { status, stdout, stderr } = run(
        ...name.split(' '),
        ...(argument === undefined ? [] : [join(nowhere, 'backups')]),
        '--json',
        `--data-dir=${nowhere}`,
      );
      // It finds nothing wrong with a directory that a server would create.
      if (name !== 'doctor') assert.notEqual(status, 0);
      const answer = JSON.parse(stdout === '' ? stderr : stdout) as { readonly message?: string };
      assert.ok(stdout !== '' || (answer.message ?? '') !== '', stderr);
    });
});
