// A server with data to steal: canaries in files, variables and tables, and a listener that nothing may connect to. Hostile
// statements are sent through REST; their responses and side effects are checked here.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import {
  copyFileSync,
  globSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:net';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import type { Settings } from '../../src/settings/read_settings.ts';
import { deadlineMs, eventually } from '../deadline.ts';
import { type Reply, start, type TestServer } from '../server.ts';

/** The codes with which a statement can be refused because of its content. */
export const refusals =
  /^(?:SQL_INVALID|SQL_NOT_SUPPORTED|SQL_FORBIDDEN_FUNCTION|PARAMETERS_INVALID|INVALID_PARAMETER)$/;
const secretFiles = ['secret.csv', 'secret.json', 'secret.txt', 'secret.parquet', 'secret.duckdb'] as const;
/** A result (`.json`) that belongs to no task is removed within a minute. */
const resultFiles = secretFiles.filter((name) => !name.endsWith('.json'));
/** Under the data directory. `catalogs` contains databases only: here that of a suspended warehouse. */
const holders = { results: resultFiles, spool: secretFiles, catalogs: ['secret.duckdb'] } as const;
const answersWithinMs = deadlineMs(15_000);

export class Sandbox {
  readonly server: TestServer;
  /** Contained in every secret, and in nothing else. */
  readonly canary: string;
  /** A directory outside the data directory, with the secret files. */
  readonly outside: string;
  readonly #listener: Server;
  readonly port: number;
  #callers = 0;
  readonly #before: ReadonlyMap<string, string>;

  constructor(server: TestServer, canary: string, outside: string, listener: Server) {
    this.server = server;
    this.canary = canary;
    this.outside = outside;
    this.#listener = listener;
    this.port = (listener.address() as { port: number }).port;
    listener.on('connection', (socket) => {
      this.#callers++;
      socket.destroy();
    });
    this.#before = this.#files();
  }

  /** Every secret file. */
  get secrets(): string[] {
    const pathsInside = Object.entries(holders).flatMap(([holder, names]) =>
      names.map((name) => join(this.server.dataDirectory, holder, name)),
    );
    return [...secretFiles.map((name) => join(this.outside, name)), ...pathsInside];
  }

  /** Accepts any response that reveals nothing that its reader may not know. */
  async send(sql: string, more: object = {}): Promise<Reply> {
    const reply = await this.server.query('d', sql, more);
    this.#requireNoLeak(reply, `${sql} ${JSON.stringify(more)}`);
    return reply;
  }

  /** @returns the code of the refusal. */
  async refuses(sql: string, more: object = {}): Promise<string> {
    const reply = await this.send(sql, more);
    assert.ok(reply.status >= 400 && reply.status < 500, `${sql.slice(0, 500)}: ${reply.text.slice(0, 500)}`);
    assert.match(reply.code, refusals, `${sql.slice(0, 500)}: ${reply.text.slice(0, 500)}`);
    return reply.code;
  }

  #requireNoLeak({ text }: Reply, sent: string): void {
    const summary = `${sent.slice(0, 500)}: ${text.slice(0, 500)}`;
    for (const secret of [this.canary, 'hidden_', '__tabularium', 'node_modules', '.ts:', '\\n    at '])
      assert.ok(!text.includes(secret) || sent.includes(secret), `${secret} is in the answer to ${summary}`);
    for (const path of [this.server.dataDirectory, this.outside, process.cwd()])
      assert.ok(!text.includes(path) || sent.includes(path), `a path is in the answer to ${summary}`);
  }

  /** The server works, nothing connected to the listener, and no file was created, deleted or changed. */
  async isUnharmed(): Promise<void> {
    const startMs = performance.now();
    assert.deepEqual(await this.server.rows('d', 'SELECT count(*), min(v) FROM t'), [[3, 'a']]);
    assert.ok(performance.now() - startMs < answersWithinMs, 'the server is slow to answer');
    assert.equal(this.#callers, 0, 'somebody called the listener');
    // The result of a statement that was cancelled is removed after its caller has the answer.
    await eventually('the results of cancelled statements are removed', () =>
      this.#changedPaths().every((path) => !path.endsWith('.rows')),
    );
    assert.deepEqual(this.#changedPaths(), []);
    // The targets of relative paths, and directories that everybody may write.
    const escaped = [process.cwd(), tmpdir(), homedir(), '/'].flatMap((directory) => readdirSync(directory));
    assert.deepEqual(
      escaped.filter((name) => name.includes('escaped')),
      [],
    );
  }

  #changedPaths(): string[] {
    const files = this.#files();
    const isChanged = (path: string) => files.get(path) !== this.#before.get(path);
    return [...new Set([...files.keys(), ...this.#before.keys()].filter(isChanged))];
  }

  /** Path → content; for files that the server writes itself, only which of them exist. */
  #files(): ReadonlyMap<string, string> {
    const secretsFound = new Map<string, string>();
    for (const directory of [this.outside, this.server.dataDirectory]) {
      for (const path of globSync('**', { cwd: directory }).sort()) {
        if (/^spool\/spill|\.wal$|-wal$|-shm$/.test(path)) continue;
        const fullPath = join(directory, path);
        const isWritten =
          /^(?:catalogs\/.*|metadata\.sqlite|metadata\.sqlite-sums(?:\.draft)?|audit\.journal)$/.test(path) &&
          !path.includes('secret');
        const isFile = statSync(fullPath).isFile() && !isWritten;
        secretsFound.set(fullPath, isFile ? readFileSync(fullPath, 'latin1') : '');
      }
    }
    return secretsFound;
  }

  async close(): Promise<void> {
    await this.server.close();
    this.#listener.close();
    rmSync(this.outside, { recursive: true, force: true });
  }
}

export async function openSandbox(settings: Partial<Settings> = {}): Promise<Sandbox> {
  const canary = `c4n4ry${randomBytes(8).toString('hex')}`;
  process.env.TABULARIUM_CANARY = canary;
  const outsideDirectory = mkdtempSync(join(tmpdir(), 'sandbox-outside-'));
  await writeSecrets(outsideDirectory, canary);
  const server = await start(settings);
  await server.client.databases.create({ name: 'd' });
  for (const [name, column] of [
    ['t', 'v'],
    ['hidden_table', 'hidden_column'],
  ] as const) {
    const columns = [
      { name: 'id', type: 'INT' },
      { name: column, type: 'STRING' },
    ];
    await server.client
      .databases('d')
      .tables.create({ name, columns, primaryKey: ['id'] })
      .done();
  }
  (await server.query('d', "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")).is(200);
  (await server.query('d', `INSERT INTO hidden_table VALUES (1, '${canary}')`)).is(200);
  await server.client.catalogs.create({ name: 'hidden_catalog' });
  await server.client.catalogs('hidden_catalog').databases.create({ name: 'hidden_database' });
  for (const [holder, names] of Object.entries(holders))
    for (const name of names) copyFileSync(join(outsideDirectory, name), join(server.dataDirectory, holder, name));
  const listener = createServer();
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  return new Sandbox(server, canary, outsideDirectory, listener);
}

async function writeSecrets(directory: string, canary: string): Promise<void> {
  writeFileSync(join(directory, 'secret.csv'), `id,${canary}\n1,${canary}\n`);
  writeFileSync(join(directory, 'secret.json'), JSON.stringify([{ id: 1, [canary]: canary }]));
  writeFileSync(join(directory, 'secret.txt'), canary);
  const instance = await DuckDBInstance.create(join(directory, 'secret.duckdb'));
  const connection = await instance.connect();
  await connection.run(`CREATE TABLE hidden_table AS SELECT 1 AS id, '${canary}' AS ${canary}`);
  await connection.run(`COPY hidden_table TO '${join(directory, 'secret.parquet')}' (FORMAT parquet)`);
  connection.closeSync();
  instance.closeSync();
}
