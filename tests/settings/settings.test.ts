// Settings as their user writes them: where each may come from, which source wins, and what each refusal says.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, describe, it } from 'node:test';
import { describedLocally } from '../../src/cli/commands.ts';
import { localHelp } from '../../src/cli/remote/local_help.ts';
import { release } from '../../src/model/release.ts';
import { readSettings, SettingsError, usableMemoryBytes } from '../../src/settings/read_settings.ts';
import { type SettingName, settingNames, settingOf } from '../../src/settings/server_settings.ts';
import { bytesText, flagOf, type Setting, variableOf } from '../../src/settings/setting_type.ts';

const directory = mkdtempSync(join(tmpdir(), 'tabularium-settings-'));
after(() => rmSync(directory, { recursive: true }));

/** Every test says where the data are, so that a ./data of the developer's own does not count. */
const read = (argv: string[], env: Record<string, string> = {}) =>
  readSettings(argv, { TABULARIUM_DATA_DIR: directory, ...env });

function configFile(content: unknown, name = 'settings.json'): string {
  const path = join(directory, name);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}

function requireInvalidSettings(argv: string[], env: Record<string, string>, ...parts: string[]): void {
  assert.throws(
    () => read(argv, env),
    (error) => {
      assert.ok(error instanceof SettingsError, String(error));
      for (const part of parts) assert.ok(error.message.includes(part), `${part} is not in: ${error.message}`);
      return true;
    },
  );
}

/** A value that is allowed and not the default, with what it is read as. */
function sample(setting: Setting): { text: string; value: unknown } {
  switch (setting.type) {
    case 'boolean':
      return { text: 'true', value: true };
    case 'enum':
      return { text: setting.values.at(-1) ?? '', value: setting.values.at(-1) };
    case 'string':
      return { text: 'somewhere', value: 'somewhere' };
    case 'path':
      return { text: 'a/b', value: resolve('a/b') };
    case 'bytes':
      return { text: bytesText(setting.max), value: setting.max };
    default:
      return { text: String(setting.max), value: setting.max };
  }
}
const sampled = settingNames.filter((name) => settingOf(name).only === undefined && name !== 'dataDir');
/** The two that bind each other are moved together. */
const companionArguments = (name: SettingName): Record<string, string> =>
  name === 'headersTimeoutMs' ? { TABULARIUM_REQUEST_TIMEOUT_MS: '86400000' } : {};

describe('the table', () => {
  it('has a valid default, a sentence and a unique name for each setting', () => {
    for (const name of settingNames) {
      const setting = settingOf(name);
      assert.match(setting.doc, /^[A-Z].*\.$/, name);
      if ('min' in setting) assert.ok(setting.default >= setting.min && setting.default <= setting.max, name);
      if (setting.type === 'bytes') assert.match(name, /Bytes/, name);
      assert.match(flagOf(name), /^--[a-z]+(-[a-z]+)*$/);
    }
    assert.equal(new Set(settingNames.map(variableOf)).size, settingNames.length);
  });

  it('is in the help of a command that reads it', () => {
    const help = new Map<string, string>();
    for (const command of localHelp(describedLocally()).flatMap((each) => [each, ...each.commands])) {
      const name = [command.parent?.name(), command.name()].filter((word) => word !== undefined).join(' ');
      let text = '';
      command.configureOutput({ writeOut: (written) => (text += written) }).outputHelp();
      help.set(name, text);
    }
    for (const name of settingNames) {
      if (settingOf(name).section === 'Other') continue;
      const written = settingOf(name).only === 'variable' ? variableOf(name) : flagOf(name);
      for (const command of [settingOf(name).command ?? []].flat())
        assert.match(help.get(command) ?? '', new RegExp(`^ +${written}\\b`, 'm'), `${command} ${name}`);
      assert.ok(
        [...help.values()].some((text) => new RegExp(`^ +${written}\\b`, 'm').test(text)),
        name,
      );
    }
  });
});

describe('sources', () => {
  it('use the defaults if nothing is set', () => {
    const { dataDir, ...rest } = read([]);
    assert.equal(dataDir, directory);
    for (const [name, value] of Object.entries(rest)) assert.equal(value, settingOf(name as SettingName).default, name);
  });

  for (const name of sampled)
    it(`include flag, variable and file for ${name}`, () => {
      const { text, value } = sample(settingOf(name));
      assert.deepEqual(
        read([flagOf(name), text].slice(0, text === 'true' ? 1 : 2), companionArguments(name))[name],
        value,
      );
      assert.deepEqual(read([`${flagOf(name)}=${text}`], companionArguments(name))[name], value);
      assert.deepEqual(read([], { ...companionArguments(name), [variableOf(name)]: text })[name], value);
      const path = configFile({ [name]: typeof value === 'string' ? text : value });
      const fromFile = read(['--config', path], companionArguments(name))[name];
      assert.deepEqual(fromFile, settingOf(name).type === 'path' ? join(directory, text) : value);
    });

  it('have the precedence flag, variable, file, default', () => {
    const path = configFile({ port: 3, host: 'file', scale: 0.3 });
    const env = { TABULARIUM_PORT: '2', TABULARIUM_HOST: 'variable', TABULARIUM_CONFIG: path };
    const { port, host, scale, queueWaitMs } = read(['--port', '1'], env);
    assert.deepEqual([port, host, scale, queueWaitMs], [1, 'variable', 0.3, 30_000]);
  });

  it('can switch a boolean off again', () => {
    assert.equal(read(['--no-demo'], { TABULARIUM_DEMO: 'true' }).demo, false);
    assert.equal(read(['--demo=false'], { TABULARIUM_DEMO: 'true' }).demo, false);
  });

  it('include config.json in the data directory, which cannot move the data directory', () => {
    const path = configFile({ port: 7 }, 'config.json');
    try {
      assert.equal(read([]).port, 7);
      assert.equal(read([], { TABULARIUM_PORT: '' }).port, 7, 'an empty variable counts as none');
      configFile({ dataDir: '/elsewhere' }, 'config.json');
      requireInvalidSettings([], {}, '"dataDir"', path);
    } finally {
      rmSync(path);
    }
  });

  it('include a named file, which can set the data directory relative to itself', () => {
    const path = configFile({ dataDir: 'kept' });
    assert.equal(readSettings(['--config', path], {}).dataDir, join(directory, 'kept'));
  });

  it('are only flags for --help and --version', () => {
    assert.equal(read(['--help'], { TABULARIUM_PORT: 'nonsense' }).help, true);
    assert.equal(read(['-h']).help, true);
    assert.equal(read(['--version', '--config', '/nowhere']).version, true);
    assert.match(release, /^\d+\.\d+\.\d+/);
  });
});

describe('bytes', () => {
  const cases: [string, number][] = [
    ['65536', 65_536],
    ['64KiB', 65_536],
    ['1MiB', 1_048_576],
    ['1 MiB', 1_048_576],
    ['1.5MiB', 1_572_864],
    ['2MB', 2_000_000],
    ['65536B', 65_536],
  ];
  for (const [text, bytes] of cases)
    it(`are parsed: ${text}`, () => assert.equal(read(['--page-bytes-max', text]).pageBytesMax, bytes));
  for (const text of ['', 'MiB', '8 mib', '-1MiB', '8MiBs', '0.3B', '1e6', '0x10', '8M', ' 8MiB', '1KiB', '1TiB'])
    it(`are refused: ${JSON.stringify(text)}`, () =>
      requireInvalidSettings([`--page-bytes-max=${text}`], {}, '--page-bytes-max', '8MiB or', '64KiB'));
});

describe('the memory of a server', () => {
  it('is that of its container, where it has a limit, otherwise that of the machine', () => {
    const GiB = 1024 ** 3;
    assert.equal(usableMemoryBytes(64 * GiB, 4 * GiB), 4 * GiB);
    for (const none of [0, 128 * GiB, 2 ** 64]) assert.equal(usableMemoryBytes(64 * GiB, none), 64 * GiB);
  });
});

describe('refusals', () => {
  const cases: [string, string[], Record<string, string>, string[]][] = [
    ['an unknown flag', ['--prot', '1'], {}, ['--prot is not a flag']],
    ['the start of a flag, with a hint', ['--data', 'x'], {}, ['did you mean --data-dir?']],
    ['a bare word', ['now'], {}, ['"now" is not a flag']],
    ['a short flag', ['-p', '1'], {}, ['"-p" is not a flag']],
    ['a flag without its value', ['--port'], {}, ['--port requires a value']],
    ['a flag where a value belongs', ['--host', '--demo'], {}, ['--host requires a value']],
    ['a flag twice', ['--port', '1', '--port=2'], {}, ['--port is repeated']],
    ['a boolean on and off', ['--demo', '--no-demo'], {}, ['--demo is repeated']],
    ['--no- of a number', ['--no-port'], {}, ['--no-port is not a flag']],
    ['--no- with a value', ['--no-demo=true'], {}, ['--no-demo does not accept a value']],
    ['a port out of range', ['--port', '65536'], {}, ['--port must be a whole number from 0 to 65535; it is "65536"']],
    ['a port with letters', ['--port', '80a'], {}, ['--port', '"80a"']],
    ['a negative port', ['--port', '-1'], {}, ['--port', '"-1"']],
    ['a fraction of milliseconds', ['--queue-wait-ms', '1.5'], {}, ['--queue-wait-ms must be a whole number']],
    ['a scale of 0', ['--scale', '0'], {}, ['--scale must be a number from 0.001 to 100']],
    ['an endless scale', ['--scale', 'Infinity'], {}, ['--scale must be a number']],
    ['a log level that is none', ['--log-level', 'loud'], {}, ['--log-level must be one of trace, debug, info']],
    ['a boolean that is none', ['--demo=yes'], {}, ['--demo must be true or false; it is "yes"']],
    ['an empty host', ['--host='], {}, ['--host must be a non-empty string']],
    ['an empty path', ['--data-dir='], {}, ['--data-dir must be a path']],
    ['a NUL in a path', ['--data-dir=a\0b'], {}, ['--data-dir must be a path']],
    [
      'a variable',
      [],
      { TABULARIUM_PORT: 'tcp://10.0.0.1:8030' },
      ['TABULARIUM_PORT must be a whole number', 'tcp://'],
    ],
    ['a long value, cut', [`--port=${'9'.repeat(10_000)}`], {}, ['--port', '999...']],
    ['timeouts at odds', ['--headers-timeout-ms=9000', '--request-timeout-ms=8000'], {}, ['headersTimeoutMs (9000)']],
    [
      'a configuration file that is not there',
      ['--config', 'nowhere.json'],
      {},
      ['the configuration file cannot be read from', 'nowhere.json (it does not exist)', '--config'],
    ],
  ];
  for (const [title, argv, env, parts] of cases) it(title, () => requireInvalidSettings(argv, env, ...parts));

  const files: [string, unknown, string[]][] = [
    ['an unknown key', { prot: 1 }, ['"prot"', 'not one of its settings']],
    ['an unknown key, with a hint', { page_bytes_max: 1 }, ['"page_bytes_max"', 'did you mean pageBytesMax?']],
    ['a flag as key', { '--port': 1 }, ['"--port"']],
    ['config in a config', { config: 'x' }, ['"config"']],
    ['help in a config', { help: true }, ['"help"']],
    ['a wrong type', { port: [1] }, ['the key "port" of', '[1]']],
    ['null', { port: null }, ['the key "port" of', 'null']],
    ['an inherited name', '{"__proto__": 1}', ['"__proto__"']],
    ['an array', [], ['must contain one JSON object']],
    ['text that is not JSON', '{port: 1}', ['cannot be read']],
    ['nothing', '', ['cannot be read']],
  ];
  for (const [title, content, parts] of files)
    it(`a configuration file with ${title}`, () => {
      const path = configFile(content);
      requireInvalidSettings(['--config', path], {}, path, ...parts);
    });
});
