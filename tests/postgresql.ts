// A PostgreSQL cluster for the tests of one process: in a temporary directory, without durability, reached by a socket in that directory.
// It ends with the process, also when that is killed. Its collation is not that of code points, so that tests find columns that rely on it.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, globSync, mkdtempSync, openSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, type ClientConfig } from 'pg';
import { openPostgresqlStore, type PostgresqlLocation } from '../src/store/postgresql/postgresql_store.ts';
import { eventually } from './deadline.ts';

/** Not `TMPDIR`, which the user of the cluster may be unable to enter; in memory where there is room. */
const memoryDirectory = '/dev/shm';
const memoryBytesMin = 2 * 1024 ** 3;
const clusterUser = 'tabularium';
/** As root, the cluster runs as this user, which Debian's package creates. */
const systemUser = 'postgres';
const startMs = 60_000;

const programs = globSync('/usr/lib/postgresql/*/bin/postgres')
  .sort()
  .at(-1)
  ?.replace(/\/postgres$/, '');

/** Why tests on PostgreSQL cannot run; false if they can. */
export const missingPostgresql: string | false =
  programs === undefined && 'PostgreSQL is not installed (apt-get install postgresql)';

interface Cluster {
  readonly location: Omit<PostgresqlLocation, 'database'>;
  readonly run: (sql: string) => Promise<void>;
  readonly launch: () => Promise<void>;
  readonly stop: () => Promise<void>;
  readonly signal: (signal: NodeJS.Signals) => void;
  readonly startStandby: () => Promise<Standby>;
}

/** A copy of the cluster that follows it, with the same databases. */
export interface Standby {
  /** The directory of its socket. */
  readonly host: string;
  /** Makes it a primary server of its own. */
  readonly promote: () => Promise<void>;
}

/** A user that the cluster asks for a password; to be created by a test. */
export const userWithPassword = 'with_password';

let cluster: Promise<Cluster> | undefined;
let databases = 0;

/** An empty database; `template`: a copy of that one, to which no one is connected. */
export async function newDatabase(template?: string): Promise<PostgresqlLocation> {
  cluster ??= startCluster();
  const { location, run } = await cluster;
  const database = `store_${++databases}`;
  await run(`create database ${database} template ${template ?? 'template0'}`);
  return { ...location, database };
}

let migrated: Promise<PostgresqlLocation> | undefined;

/** A database with the tables of an empty store: copied, because migrations take longer. */
export async function newStoreDatabase(): Promise<PostgresqlLocation> {
  migrated ??= newDatabase().then(async (location) => {
    await (await openPostgresqlStore({ location })).close();
    return location;
  });
  return newDatabase((await migrated).database);
}

/** The value of the setting `store`. */
export const urlOfDatabase = ({ host, port, user = '', database }: PostgresqlLocation) =>
  `postgres://${user}@${encodeURIComponent(host)}:${port}/${database}`;

export async function runInCluster(sql: string): Promise<void> {
  await (await (cluster as Promise<Cluster>)).run(sql);
}

/** Statements in a database itself. */
export async function runInDatabase({ host, port, user, database }: PostgresqlLocation, sql: string): Promise<void> {
  await queryOnce({ host, port, user, database }, sql);
}

/** On a connection of its own. @returns the first row; undefined after several statements. */
export async function queryOnce(config: ClientConfig, sql: string): Promise<unknown> {
  const client = new Client(config);
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query(sql)).rows?.[0];
  } finally {
    await client.end();
  }
}

/** Stops the database server; all connections end. @returns a function that starts it again. */
export async function stopPostgresql(): Promise<() => Promise<void>> {
  const { stop, launch } = await (cluster as Promise<Cluster>);
  await stop();
  return launch;
}

/** Starts a standby of the cluster, which ends with the process. */
export async function startStandby(): Promise<Standby> {
  return (await (cluster as Promise<Cluster>)).startStandby();
}

/** Freezes all processes of the database server, which then answers nothing. @returns a function that continues them. */
export async function freezePostgresql(): Promise<() => void> {
  const { signal } = await (cluster as Promise<Cluster>);
  signal('SIGSTOP');
  return () => signal('SIGCONT');
}

/** Ends the connections on which servers are notified of changes. */
export async function endNotifications({ database }: Pick<PostgresqlLocation, 'database'>): Promise<void> {
  const { run } = await (cluster as Promise<Cluster>);
  await run(
    `select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = '${database}' and application_name = 'tabularium feed'`,
  );
}

/** Ends all connections, which rolls back their transactions. @returns a copy of the database. */
export async function copyDatabase({ database }: PostgresqlLocation): Promise<PostgresqlLocation> {
  const { run } = await (cluster as Promise<Cluster>);
  await run(`alter database ${database} allow_connections false`);
  try {
    await disconnect({ database });
    return await newDatabase(database);
  } finally {
    await run(`alter database ${database} allow_connections true`);
  }
}

/** Ends all connections, as a restart of the database server does. */
export async function disconnect({ database }: Pick<PostgresqlLocation, 'database'>): Promise<void> {
  const { run } = await (cluster as Promise<Cluster>);
  await run(`select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = '${database}'`);
}

export async function dropDatabase({ database }: PostgresqlLocation): Promise<void> {
  const { run } = await (cluster as Promise<Cluster>);
  await run(`drop database if exists ${database} with (force)`);
}

/** What every cluster of the tests is started with; PostgreSQL must be installed. */
export function clusterSetup() {
  const isRoot = process.getuid?.() === 0;
  const { bavail, bsize } = statfsSync(memoryDirectory);
  return {
    /** The directory of its programs. */
    programs: programs as string,
    /** Where its directory belongs. */
    base: bavail * bsize > memoryBytesMin ? memoryDirectory : '/tmp',
    /** The owner of its directory. */
    ids: isRoot ? idsOfSystemUser() : { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 },
    /** Options of `setpriv` that run a program as its owner. */
    asUser: isRoot ? [`--reuid=${systemUser}`, `--regid=${systemUser}`, '--init-groups'] : [],
  };
}

/** Called before the first database is made: the cluster is on disk and durable, as in operation. For measurements. */
export function startDurableCluster(): void {
  if (cluster) throw new Error('the cluster runs already');
  cluster = startCluster({ isDurable: true });
}

async function startCluster({ isDurable = false } = {}): Promise<Cluster> {
  const { base: usualBase, ids, asUser } = clusterSetup();
  // The directory of the tests is of their user only, and in memory.
  const base = isDurable ? '/tmp' : usualBase;
  const { uid, gid } = ids;
  const directory = mkdtempSync(join(base, 'tabularium-pg-'));
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  chownSync(directory, uid, gid);
  const data = join(directory, 'data');
  const own = { cwd: directory, env: { PATH: process.env.PATH, LC_ALL: 'C.UTF-8', TMPDIR: directory } };
  const locale = ['--locale=C', '--locale-provider=icu', '--icu-locale=en-US', '--encoding=UTF8'];
  const light = ['--auth=trust', '--no-sync', '--no-instructions', '--wal-segsize=1'];
  const initdb = [join(programs as string, 'initdb'), `--pgdata=${data}`, `--username=${clusterUser}`];
  execFileSync('setpriv', [...asUser, ...initdb, ...locale, ...light], { ...own, stdio: 'pipe' });
  const settings = {
    unix_socket_directories: directory,
    listen_addresses: '',
    ...(isDurable ? {} : { fsync: 'off', full_page_writes: 'off' }),
    max_connections: '300',
    shared_buffers: '32MB',
    dynamic_shared_memory_type: 'mmap',
    autovacuum: 'off',
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const local = readFileSync(join(data, 'pg_hba.conf'), 'utf8');
  writeFileSync(join(data, 'pg_hba.conf'), `local all ${userWithPassword} scram-sha-256\n${local}`);
  const log = openSync(join(directory, 'log'), 'a');
  // The kernel stops the cluster when this process ends, however it ends.
  const postgres = [join(programs as string, 'postgres'), '-D', data, ...flags];
  const location = { host: directory, port: 5432, user: clusterUser };
  const run = async (sql: string): Promise<void> => {
    await queryOnce({ ...location, database: 'postgres' }, sql);
  };
  let server: ChildProcess;
  const launch = async () => {
    const started = spawn('setpriv', [...asUser, '--pdeathsig=QUIT', ...postgres], {
      ...own,
      stdio: ['ignore', log, log],
    });
    started.unref();
    server = started;
    const isReady = () =>
      run('select 1').then(
        () => true,
        () => started.exitCode !== null,
      );
    await eventually('PostgreSQL starts', isReady, startMs);
    if (started.exitCode !== null) throw new Error(`PostgreSQL ended: ${readFileSync(join(directory, 'log'), 'utf8')}`);
  };
  const stop = async () => {
    const exited = once(server, 'exit');
    server.ref();
    server.kill('SIGINT');
    await exited;
  };
  const signal = (name: NodeJS.Signals) => {
    const { pid } = server;
    // First the one that starts the others.
    process.kill(pid as number, name);
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
    for (const child of children) signalIfRunning(Number(child), name);
  };
  process.once('exit', () => server.kill('SIGQUIT'));
  const setup = { base, directory, uid, gid, asUser, own, flags, log };
  const startStandby = () => startStandbyOf(setup);
  await launch();
  return { location, run, launch, stop, signal, startStandby };
}

/** A process of a connection may have ended meanwhile. */
function signalIfRunning(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

interface ClusterSetup {
  readonly base: string;
  readonly directory: string;
  readonly uid: number;
  readonly gid: number;
  readonly asUser: readonly string[];
  readonly own: { readonly cwd: string; readonly env: NodeJS.ProcessEnv };
  readonly flags: readonly string[];
  readonly log: number;
}

async function startStandbyOf({ base, directory, uid, gid, asUser, own, flags, log }: ClusterSetup): Promise<Standby> {
  const host = mkdtempSync(join(base, 'tabularium-pg-standby-'));
  process.once('exit', () => rmSync(host, { recursive: true, force: true }));
  chownSync(host, uid, gid);
  const data = join(host, 'data');
  const from = ['-h', directory, '-U', clusterUser, '-D', data, '-R', '-X', 'stream', '-c', 'fast'];
  execFileSync('setpriv', [...asUser, join(programs as string, 'pg_basebackup'), ...from], { ...own, stdio: 'pipe' });
  const sockets = 'unix_socket_directories=';
  const ownFlags = flags.map((flag) => (flag.startsWith(sockets) ? `${sockets}${host}` : flag));
  const postgres = [join(programs as string, 'postgres'), '-D', data, ...ownFlags];
  const standby = spawn('setpriv', [...asUser, '--pdeathsig=QUIT', ...postgres], {
    ...own,
    cwd: host,
    stdio: ['ignore', log, log],
  });
  standby.unref();
  process.once('exit', () => standby.kill('SIGQUIT'));
  const query = (sql: string) => queryOnce({ host, port: 5432, user: clusterUser, database: 'postgres' }, sql);
  await eventually('the standby accepts connections', () => query('select 1').catch(() => undefined), startMs);
  return { host, promote: async () => void (await query('select pg_promote()')) };
}

function idsOfSystemUser() {
  const number = (flag: string) => Number(execFileSync('id', [flag, systemUser], { encoding: 'utf8' }));
  return { uid: number('-u'), gid: number('-g') };
}
