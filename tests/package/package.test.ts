// The package as its users get it: packed, installed in an empty directory, started by its command. See launcher.test.ts for
// signals and old versions of Node.
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { deadlineMs } from '../deadline.ts';
import { userEnvironment } from './user_environment.ts';

const run = promisify(execFile);
const root = resolve(import.meta.dirname, '../..');
const installTimeoutMs = deadlineMs(60_000);
const attemptsMax = 3;
const readyTimeoutMs = deadlineMs(30_000);
/** As `du -m` counts. */
const installedMegabytesMax = 270;
const withoutNodeMegabytesMax = 130;
const { nodePackage } = createRequire(import.meta.url)('../../bin/runtime.js') as { readonly nodePackage: string };
const outputBytesMax = 16 * 1024 * 1024;

const env = userEnvironment();
const directory = mkdtempSync(join(tmpdir(), 'tabularium-package-'));
const home = join(directory, 'home');
after(() => rmSync(directory, { recursive: true, force: true }));

/** Repeated if it takes too long, because a registry may leave a request without an answer. */
async function npm(args: string[], cwd: string): Promise<void> {
  const options = { cwd, env, timeout: installTimeoutMs, killSignal: 'SIGKILL', maxBuffer: outputBytesMax } as const;
  for (let attempt = 1; ; attempt++)
    try {
      await run('npm', args, options);
      return;
    } catch (error) {
      if (attempt === attemptsMax || !(error as { killed?: boolean }).killed) throw error;
    }
}

/** The address that the server prints when it is ready. */
async function readyUrl(server: ChildProcess): Promise<string> {
  const lines: string[] = [];
  const timer = setTimeout(() => server.kill('SIGKILL'), readyTimeoutMs);
  server.stderr?.on('data', (data: Buffer) => lines.push(data.toString()));
  if (!server.stdout) throw new Error('stdout is not a pipe');
  for await (const line of createInterface({ input: server.stdout })) {
    lines.push(line);
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(line)?.[0];
    if (url) {
      clearTimeout(timer);
      server.stdout.resume();
      return url;
    }
  }
  throw new Error(`the server is not ready after ${readyTimeoutMs} ms:\n${lines.join('\n')}`);
}

/** Written as a user of the package would: with the package's types, and none of Node.js. */
const program = `import { createClient, errors } from 'tabularium/client';
export async function ask(url: string, token: string): Promise<string> {
  const client = createClient({ url, token });
  await client.databases.create({ name: 'shop' });
  const tables = client.catalogs('default').databases('shop').tables;
  await tables.create({ name: 'typed', columns: [{ name: 'id', type: 'INT' }] }).done();
  const [column] = (await tables('typed').get()).columns;
  const missing = await tables('none').get().catch((error) => error instanceof errors.OBJECT_NOT_FOUND);
  // @ts-expect-error no such field
  await tables('typed').update({ colour: 'red' }).done().catch(() => undefined);
  const [row] = await client.query<{ big: bigint }>('SELECT 9007199254740993 AS big').all();
  return \`\${column?.name} \${column?.type} \${missing === true ? 'NOT_FOUND' : missing} \${row?.big}\`;
}
`;

/** Compiles the program against the installed package and runs it. */
async function answerOfProgram(url: string, token: string): Promise<string> {
  writeFileSync(join(home, 'ask.mts'), program);
  const compiler = join(root, 'node_modules/typescript/bin/tsc');
  const options = ['--strict', '--target', 'es2023', '--module', 'nodenext', '--lib', 'es2023,dom', '--types', ''];
  await run(process.execPath, [compiler, ...options, 'ask.mts'], { cwd: home, env, timeout: installTimeoutMs });
  const call = `import { ask } from './ask.mjs'; console.log(await ask(${JSON.stringify(url)}, ${JSON.stringify(token)}))`;
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', call], { cwd: home, env });
  return stdout;
}

describe('the package', () => {
  let tarball = '';
  before(async () => {
    await npm(['pack', '--pack-destination', directory], root);
    tarball = readdirSync(directory).find((name) => name.endsWith('.tgz')) ?? '';
    assert.match(tarball, /^tabularium-\d+\.\d+\.\d+.*\.tgz$/);
    await run('mkdir', [home]);
    writeFileSync(join(home, 'package.json'), '{"private": true}');
    await npm(['install', '--no-audit', '--no-fund', join(directory, tarball)], home);
  });

  it('contains what it needs to run and nothing for its development', async () => {
    const { stdout } = await run('tar', ['-tzf', join(directory, tarball)]);
    const names = stdout.split('\n').map((name) => name.replace(/^package\//, ''));
    for (const name of [
      'bin/tabularium.js',
      'bin/package.json',
      'dist/main.js',
      'dist/client/index.d.ts',
      'dist/console/index.html',
      'dist/console/index.html.br',
      'dist/console/licenses.md',
      'dist/console/docs/index.html.gz',
      'dist/console/docs/codes/SQL_INVALID.html.gz',
      'dist/console/docs/images/sql.webp',
      'openapi.json',
      'openapi.client.json',
      'LICENSE',
      'README.md',
      'demo/ssb/tables/lineorder.sql',
    ])
      assert.ok(names.includes(name), `${name} is missing`);
    for (const name of names)
      assert.doesNotMatch(name, /^(src|tests|bench|scripts|data|node_modules|\.ci)\/|(?<!\.d)\.ts$|\.tgz$/);
  });

  it('uses no more disk space than documented, with and without a Node of its own', {
    skip: process.platform !== 'linux' && 'the sizes are those of Linux',
  }, async () => {
    const megabytes = async (path: string) => {
      const { stdout } = await run('du', ['-sk', path]);
      return Number.parseInt(stdout, 10) / 1024;
    };
    const modules = join(home, 'node_modules');
    const node = await megabytes(join(modules, nodePackage));
    const all = await megabytes(modules);
    assert.ok(all <= installedMegabytesMax, `${all} MB`);
    assert.ok(all - node <= withoutNodeMegabytesMax, `${all - node} MB without ${nodePackage}`);
    assert.ok(node > 100, `${nodePackage} is still a whole Node: ${node} MB`);
  });

  it('prints its version and its flags', async () => {
    const { stdout: version } = await run('npx', ['tabularium', '--version'], { cwd: home, env });
    assert.match(version, /^\d+\.\d+\.\d+\n$/);
    const { stdout: help } = await run('npx', ['tabularium', 'serve', '--help'], { cwd: home, env });
    assert.match(help, /--data-dir <path>/);
  });

  it('serves from an empty directory and stops on request', async () => {
    // The command itself and not npx, whose shell would be between it and a signal.
    const command = join(home, 'node_modules/.bin/tabularium');
    const server = spawn(command, ['serve', '--port', '0'], { cwd: home, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const exit = once(server, 'exit');
    try {
      const url = await readyUrl(server);
      const answer = await fetch(`${url}/livez`);
      assert.equal(answer.status, 200);
      await answer.arrayBuffer();
      const token = readFileSync(join(home, 'data/root.token'), 'utf8').trim();
      const post = async (path: string, body: object) => {
        const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
        const reply = await fetch(`${url}/api/v2/${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
        const text = await reply.text();
        assert.ok(reply.ok, text);
        return JSON.parse(text).result;
      };
      assert.deepEqual((await post('catalogs/default/query', { sql: 'SELECT 6 * 7 AS answer' })).rows, [[42]]);
      assert.equal(await answerOfProgram(url, token), 'id INT NOT_FOUND 9007199254740993\n');
      // Its digest is computed by a thread, whose file no other imports.
      const { link } = await post('uploads', { name: 'rows.csv' });
      const sent = await fetch(`${url}${link}`, { method: 'PUT', body: 'id\n1\n' });
      const { sha256 } = ((await sent.json()) as { result: { sha256: string } }).result;
      assert.equal(sha256, createHash('sha256').update('id\n1\n').digest('hex'));
      server.kill('SIGTERM');
      const [code, signal] = await exit;
      assert.deepEqual([code, signal], [0, null]);
    } finally {
      server.kill('SIGKILL');
      await exit;
    }
  });

  it('serves when started by npx', async () => {
    const server = spawn('npx', ['tabularium', 'serve', '--port', '0'], {
      cwd: home,
      env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const exit = once(server, 'exit');
    try {
      const answer = await fetch(`${await readyUrl(server)}/livez`);
      assert.equal(answer.status, 200);
    } finally {
      // The whole process group, like Ctrl-C in a terminal.
      process.kill(-(server.pid ?? 0), 'SIGTERM');
      await exit;
    }
  });
});
