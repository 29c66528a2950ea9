// A PostgreSQL primary and its standby, each on a host of its own: killed, frozen, and failed over to the standby, which then gets a standby of
// its own. A commit is acknowledged when both have it, as a metadata store needs that fails over. They end with this process.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { eventually } from '../../deadline.ts';
import { freePorts } from '../../engines/clickhouse/ring/free_ports.ts';
import { clusterSetup, queryOnce } from '../../postgresql.ts';
import type { Host } from './network.ts';

const user = 'tabularium';
const database = 'store';
const startMs = 60_000;

interface Node {
  readonly host: Host;
  readonly port: number;
  readonly directory: string;
  child: ChildProcess | undefined;
}

export class PostgresqlPair {
  readonly #nodes: readonly Node[];
  readonly #directory: string;
  readonly #uid: number;
  readonly #gid: number;
  /** The position of the one that accepts changes. */
  #primary = 0;
  readonly #atExit = () => this.#end();

  private constructor(directory: string, nodes: readonly Node[], ids: { uid: number; gid: number }) {
    this.#directory = directory;
    this.#nodes = nodes;
    ({ uid: this.#uid, gid: this.#gid } = ids);
    process.once('exit', this.#atExit);
  }

  static async start(hosts: readonly Host[]): Promise<PostgresqlPair> {
    const { base, ids } = clusterSetup();
    const directory = mkdtempSync(join(base, 'tabularium-pg-pair-'));
    chownSync(directory, ids.uid, ids.gid);
    const ports = await freePorts(hosts.length);
    const nodes = hosts.map((host, index) => ({
      host,
      port: ports[index] as number,
      directory: join(directory, String(index)),
      child: undefined,
    }));
    const pair = new PostgresqlPair(directory, nodes, ids);
    await pair.#begin();
    return pair;
  }

  /** The value of the setting `store`: both servers, of which one accepts changes. */
  get url(): string {
    const hosts = this.#nodes.map(({ host, port }) => `${host.address}:${port}`).join(',');
    const isLocal = this.#nodes.every(({ host }) => host.enter.length === 0);
    return `postgres://${user}@${hosts}/${database}?target_session_attrs=read-write${isLocal ? '' : '&sslmode=require'}`;
  }

  /** All processes of the primary end at once. */
  async killPrimary(): Promise<void> {
    await this.#kill(this.#primaryNode);
  }

  async startPrimary(): Promise<void> {
    await this.#launch(this.#primaryNode);
  }

  /** The primary answers nothing until the returned function is called. */
  freezePrimary(): () => void {
    const { child } = this.#primaryNode;
    const pids = processesOf(child?.pid as number);
    for (const pid of pids) signal(pid, 'SIGSTOP');
    return () => {
      for (const pid of pids) signal(pid, 'SIGCONT');
    };
  }

  /** The standby accepts changes instead of the primary, which must have been killed. */
  async promote(): Promise<void> {
    const promoted = this.#nodes[1 - this.#primary] as Node;
    await query(promoted, 'postgres', 'select pg_promote()');
    // There is no standby that could confirm commits.
    await setSynchronous(promoted, '');
    this.#primary = 1 - this.#primary;
  }

  /** Makes the other server a standby of the primary again, with a new copy of its data. */
  async addStandby(): Promise<void> {
    const standby = this.#nodes[1 - this.#primary] as Node;
    const { host, port } = this.#primaryNode;
    rmSync(standby.directory, { recursive: true, force: true });
    const from = ['-h', host.address, '-p', String(port), '-U', user, '-D', standby.directory];
    this.#run(standby, 'pg_basebackup', [...from, '-R', '-X', 'stream', '-c', 'fast', '--no-sync']);
    await this.#launch(standby);
    const streams = () =>
      query(this.#primaryNode, 'postgres', "select 1 from pg_stat_replication where state = 'streaming'");
    await eventually('the standby follows the primary', streams, startMs);
    await setSynchronous(this.#primaryNode, '*');
  }

  async close(): Promise<void> {
    process.off('exit', this.#atExit);
    for (const node of this.#nodes) await this.#kill(node);
    rmSync(this.#directory, { recursive: true, force: true });
  }

  get #primaryNode(): Node {
    return this.#nodes[this.#primary] as Node;
  }

  async #begin(): Promise<void> {
    const primary = this.#primaryNode;
    const locale = ['--locale=C', '--locale-provider=icu', '--icu-locale=en-US', '--encoding=UTF8'];
    const light = ['--auth=trust', '--no-sync', '--no-instructions', '--wal-segsize=1'];
    this.#run(primary, 'initdb', [`--pgdata=${primary.directory}`, `--username=${user}`, ...locale, ...light]);
    const everyone = ['local all', 'local replication', 'host all', 'host replication'].map((what) =>
      what.startsWith('local') ? `${what} all trust` : `${what} all all trust`,
    );
    writeFileSync(join(primary.directory, 'pg_hba.conf'), `${everyone.join('\n')}\n`);
    this.#certify(primary);
    await this.#launch(primary);
    await query(primary, 'postgres', `create database ${database} template template0`);
    await this.addStandby();
  }

  /** Connections to another host are encrypted. */
  #certify({ directory }: Node): void {
    const [key, certificate] = ['server.key', 'server.crt'].map((name) => join(directory, name)) as [string, string];
    const request = [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-days',
      '2',
    ];
    execFileSync('openssl', [...request, '-subj', '/CN=store', '-keyout', key, '-out', certificate], { stdio: 'pipe' });
    for (const file of [key, certificate]) chownSync(file, this.#uid, this.#gid);
    writeFileSync(join(directory, 'postgresql.auto.conf'), 'ssl = on\n');
  }

  #run(node: Node, program: string, words: readonly string[]): void {
    const { programs, asUser } = clusterSetup();
    const [command = '', ...all] = [...node.host.enter, 'setpriv', ...asUser, join(programs, program), ...words];
    execFileSync(command, all, this.#own);
  }

  get #own() {
    const { PATH } = process.env;
    return { cwd: this.#directory, env: { PATH, LC_ALL: 'C.UTF-8', TMPDIR: this.#directory }, stdio: 'pipe' as const };
  }

  async #launch(node: Node): Promise<void> {
    const { programs, asUser } = clusterSetup();
    const settings = {
      unix_socket_directories: '',
      listen_addresses: node.host.address,
      port: String(node.port),
      fsync: 'off',
      full_page_writes: 'off',
      max_connections: '100',
      shared_buffers: '32MB',
      dynamic_shared_memory_type: 'mmap',
      autovacuum: 'off',
    };
    const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const words = [
      'setpriv',
      ...asUser,
      '--pdeathsig=QUIT',
      join(programs, 'postgres'),
      '-D',
      node.directory,
      ...flags,
    ];
    const [command = '', ...all] = [...node.host.enter, ...words];
    const logFile = `${node.directory}.log`;
    const log = openSync(logFile, 'a');
    const child = spawn(command, all, { ...this.#own, stdio: ['ignore', log, log] });
    child.unref();
    node.child = child;
    const isReady = async () => {
      if (child.exitCode !== null) throw new Error(`PostgreSQL ended: ${readFileSync(logFile, 'utf8')}`);
      return query(node, 'postgres', 'select 1').catch(() => undefined);
    };
    await eventually('PostgreSQL starts', isReady, startMs);
  }

  async #kill({ child }: Node): Promise<void> {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.ref();
    const exited = once(child, 'exit');
    const pids = processesOf(child.pid as number);
    for (const pid of pids) signal(pid, 'SIGKILL');
    await exited;
    // A new server does not start beside processes of the former one.
    await eventually('all processes of PostgreSQL have ended', () => pids.every(hasEnded));
  }

  #end(): void {
    for (const { child } of this.#nodes) {
      if (child?.pid === undefined || child.exitCode !== null) continue;
      for (const pid of processesOf(child.pid)) signal(pid, 'SIGKILL');
    }
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

/** A server process and those that it has started, it first: it starts no more then. */
function processesOf(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
    return [pid, ...children.filter(Boolean).map(Number)];
  } catch {
    return [];
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has ended.
  }
}

/** Also if nobody has asked how. */
function hasEnded(pid: number): boolean {
  try {
    return /^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return true;
  }
}

async function setSynchronous(node: Node, names: string): Promise<void> {
  await query(node, 'postgres', `alter system set synchronous_standby_names = '${names}'`);
  await query(node, 'postgres', 'select pg_reload_conf()');
}

const query = ({ host, port }: Node, name: string, sql: string): Promise<unknown> =>
  queryOnce({ host: host.address, port, user, database: name, connectionTimeoutMillis: 5000 }, sql);
