// The oldest version that warehouses may have, 24.8, with real replication: three servers made of the library of the Python package `chdb` 3.1.2
// and one ZooKeeper. Only where CLICKHOUSE_SERVER_LIBRARY names that library, which takes 140 MB to download (CONTRIBUTING.md).
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { eventually } from '../../../deadline.ts';
import { start, type TestServer } from '../../../server.ts';
import {
  availabilityIs,
  backendsOf,
  clusterSettings,
  createWarehouse,
  register,
} from '../../../servers/clusters/cluster_server.ts';
import { freePorts } from '../ring/free_ports.ts';
import { endProcess, newZookeeper, type RingProcess } from './zookeeper.ts';

const library = process.env.CLICKHOUSE_SERVER_LIBRARY;
const program = fileURLToPath(new URL('server_of_library.py', import.meta.url));
const cluster = 'copies';
const startMs = 60_000;
const names = ['node1', 'node2', 'node3'];

interface Ports {
  readonly http: number;
  readonly tcp: number;
  readonly interserver: number;
}

function configOf(directory: string, zookeeper: number, all: readonly Ports[], index: number): string {
  const { http, tcp, interserver } = all[index] as Ports;
  const replicas = all.map((one) => `<replica><host>127.0.0.1</host><port>${one.tcp}</port></replica>`).join('');
  return `<clickhouse>
  <logger><level>warning</level><console>1</console></logger>
  <path>${directory}/data/</path><tmp_path>${directory}/data/tmp/</tmp_path>
  <listen_host>127.0.0.1</listen_host>
  <http_port>${http}</http_port><tcp_port>${tcp}</tcp_port>
  <interserver_http_port>${interserver}</interserver_http_port><interserver_http_host>127.0.0.1</interserver_http_host>
  <max_server_memory_usage>1500000000</max_server_memory_usage><mark_cache_size>10000000</mark_cache_size>
  <zookeeper><node><host>127.0.0.1</host><port>${zookeeper}</port></node><session_timeout_ms>4000</session_timeout_ms></zookeeper>
  <macros><shard>1</shard><replica>r${index + 1}</replica></macros>
  <remote_servers><${cluster}><shard><internal_replication>true</internal_replication>${replicas}</shard></${cluster}></remote_servers>
  <profiles><default/></profiles><quotas><default/></quotas>
  <users><default><password/><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
  <user_directories><users_xml><path>${directory}/config.xml</path></users_xml></user_directories>
</clickhouse>
`;
}

class Node {
  readonly url: string;
  readonly #directory: string;
  #child: ChildProcess | undefined;

  constructor(directory: string, config: string, { http }: Ports) {
    this.url = `http://127.0.0.1:${http}`;
    this.#directory = directory;
    mkdirSync(join(directory, 'data'), { recursive: true });
    writeFileSync(join(directory, 'config.xml'), config);
  }

  async start(): Promise<void> {
    const log = openSync(join(this.#directory, 'log'), 'a');
    const command = ['--pdeathsig=KILL', 'python3', program, library ?? '', join(this.#directory, 'config.xml')];
    const child = spawn('setpriv', command, { cwd: this.#directory, stdio: ['ignore', log, log] });
    this.#child = child;
    const isUp = async () => {
      if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}`);
      return fetch(`${this.url}/ping`).then(
        ({ ok }) => ok,
        () => false,
      );
    };
    await eventually('a server of 24.8 answers', isUp, startMs);
  }

  kill(): Promise<void> {
    return endProcess(this.#child);
  }

  async ask(sql: string): Promise<string> {
    return (await (await fetch(this.url, { method: 'POST', body: sql })).text()).trim();
  }
}

if (library === undefined) console.log('not run on 24.8: CLICKHOUSE_SERVER_LIBRARY names no library');
else
  describe('a cluster of 24.8 that replicates', () => {
    const directory = mkdtempSync(join(tmpdir(), 'tabularium-24-8-'));
    const table = '/api/v2/catalogs/c/databases/d/tables/t';
    let zookeeper: RingProcess;
    let nodes: readonly Node[];
    let server: TestServer;
    const query = (sql: string) => server.post('/api/v2/catalogs/c/databases/d/query', { sql });

    before(async () => {
      const [keeperPort = 0, ...ports] = await freePorts(10);
      const all = [0, 3, 6].map((at) => {
        return { http: ports[at] as number, tcp: ports[at + 1] as number, interserver: ports[at + 2] as number };
      });
      zookeeper = newZookeeper(join(directory, 'zookeeper'), keeperPort, () => {});
      await zookeeper.start();
      nodes = all.map((own, index) => {
        const place = join(directory, String(index));
        return new Node(place, configOf(place, keeperPort, all, index), own);
      });
      [server] = await Promise.all([start(clusterSettings), ...nodes.map((node) => node.start())]);
      await createWarehouse(server, 'w', cluster);
      for (const [index, node] of nodes.entries()) (await register(server, 'w', names[index] as string, node)).is(201);
      await availabilityIs(server, 'w', names, 'available');
      (await server.post('/api/v2/catalogs', { name: 'c', warehouse: 'w' })).is(201);
      (await server.put('/api/v2/catalogs/c/databases/d')).is(201);
    });
    after(async () => {
      await server?.close();
      for (const node of nodes ?? []) await node.kill();
      await zookeeper?.kill();
      rmSync(directory, { recursive: true, force: true });
    });

    test('its servers are of the oldest version that warehouses may have', async () => {
      const { text } = (await server.get(`${backendsOf('w')}/node1`)).is(200);
      assert.match(text, /"engineVersion":"24\.8\./);
    });

    test('a table is replicated, and its exact values are on every server', async () => {
      const columns = [
        { name: 'id', type: 'BIGINT' },
        { name: 'price', type: 'DECIMAL(38,2)' },
        { name: 'at', type: 'DATETIME' },
      ];
      (await server.post('/api/v2/catalogs/c/databases/d/tables', { name: 't', columns })).is(201, '0', {
        replicationNum: 3,
      });
      const rows = '[[9007199254740993,1.50,"2024-01-01T00:00:00"],[2,2.25,"2024-01-02T00:00:00.000001"]]';
      (await server.post(`${table}/rows`, `{"rows":${rows}}`)).is(201);
      const { text } = (await query('SELECT id, price, at FROM t ORDER BY price')).is(200);
      assert.ok(text.replaceAll('\n', '').includes(rows), text);
      for (const node of nodes) assert.equal(await node.ask('SELECT count() FROM c__d.t__local'), '2');
      const replicas = 'SELECT total_replicas, active_replicas, is_readonly FROM system.replicas';
      assert.equal(await nodes[0]?.ask(replicas), '3\t3\t0');
    });

    test('rows are inserted while a server is killed, which has them when it counts again', async () => {
      await nodes[1]?.kill();
      await availabilityIs(server, 'w', ['node2'], 'unavailable');
      (await server.post(`${table}/rows`, { rows: [[3, '3.00', null]] })).is(201);
      assert.deepEqual((await query('SELECT count(*) FROM t')).is(200).at('rows'), [[3]]);
      await nodes[1]?.start();
      await availabilityIs(server, 'w', ['node2'], 'available');
      assert.equal(await nodes[1]?.ask('SELECT count() FROM c__d.t__local'), '3');
    });

    test('rows are changed and a column is added on all servers', async () => {
      (await query('UPDATE t SET price = 5 WHERE id = 3')).is(200);
      (await server.post(`${table}/columns`, { name: 'note', type: 'STRING' })).is(201);
      assert.deepEqual((await query('SELECT price, note FROM t WHERE id = 3')).is(200).at('rows'), [[5, null]]);
    });
  });
