// deploy/compose/: Docker Compose accepts it, its settings and flags exist, its secrets fit together, and a server starts with its
// environment. The images are not pulled or run here (docs/decisions/deployment-checks.md).
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { startServer } from '../../../src/main.ts';
import { readSettings } from '../../../src/settings/read_settings.ts';
import { missingPostgresql, newStoreDatabase, urlOfDatabase } from '../../postgresql.ts';
import { composeDirectory, missingTools, outputOf, requireKnownVariables, root, runTool } from './tools.ts';

interface Service {
  readonly image: string;
  readonly command: readonly string[] | null;
  readonly environment?: Readonly<Record<string, string>>;
  readonly stop_grace_period: string;
  readonly restart: string;
  readonly ports?: readonly { readonly host_ip: string; readonly target: number }[];
  readonly networks: Readonly<Record<string, unknown>>;
  readonly secrets?: readonly { readonly source: string; readonly target: string }[];
  readonly volumes: readonly { readonly type: string; readonly target: string }[];
  readonly healthcheck: { readonly test: readonly string[] };
  readonly deploy: { readonly resources: { readonly limits: { readonly cpus?: number; readonly memory?: string } } };
}

interface Model {
  readonly services: Readonly<Record<string, Service>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
  readonly configs: Readonly<Record<string, { readonly file: string }>>;
  readonly networks: Readonly<Record<string, { readonly internal?: boolean }>>;
}

const composeFile = join(composeDirectory, 'compose.yaml');
const yamlRules =
  '{extends: default, rules: {line-length: {max: 200}, document-start: disable, braces: {max-spaces-inside: 1}, comments-indentation: disable}}';
const config = (file: string, ...words: string[]) => ['--file', file, 'config', ...words] as const;
const xmlValues = (file: string, tag: string): readonly string[] =>
  readFileSync(join(composeDirectory, 'clickhouse', file), 'utf8').match(
    new RegExp(`(?<=<${tag}>)[^<]*(?=</${tag}>)`, 'g'),
  ) ?? [];

describe('the Compose file', { skip: missingTools }, () => {
  let model: Model;
  let servers: readonly (readonly [string, Service])[];
  before(() => {
    model = JSON.parse(outputOf('docker-compose', config(composeFile, '--format', 'json'))) as Model;
    servers = Object.entries(model.services).filter(([, { image }]) => image.startsWith('tabularium:'));
  });

  test('is accepted by Docker Compose, which refuses what it does not know', () => {
    const directory = mkdtempSync(join(tmpdir(), 'tabularium-compose-'));
    try {
      const broken = join(directory, 'compose.yaml');
      writeFileSync(
        broken,
        readFileSync(composeFile, 'utf8').replace('    hostname: server-1', '    hostnam: server-1'),
      );
      const { status, stderr } = runTool('docker-compose', config(broken, '--quiet'));
      assert.notEqual(status, 0);
      assert.match(stderr, /hostnam/);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  test('is YAML without a fault', () => {
    assert.equal(outputOf('yamllint', ['--strict', '--config-data', yamlRules, composeFile]), '');
  });

  test('gives every container a limit, a check of its health, a pinned image and a volume', () => {
    assert.equal(Object.keys(model.services).length, 9);
    for (const [name, service] of Object.entries(model.services)) {
      assert.match(service.image, /^[a-z/-]+:\d[\w.-]*$/, name);
      assert.ok(service.deploy.resources.limits.memory && service.deploy.resources.limits.cpus, name);
      assert.ok(service.healthcheck.test.length > 1, name);
      assert.equal(service.restart, 'unless-stopped', name);
      assert.equal(service.volumes.filter(({ type }) => type === 'volume').length, 1, name);
    }
  });

  test('publishes the ports of the servers only, on loopback, and connects each part to those that it needs', () => {
    assert.deepEqual(servers.map(([name]) => name).sort(), ['server-1', 'server-2']);
    for (const [name, { ports = [], networks }] of Object.entries(model.services)) {
      const isServer = name.startsWith('server-');
      assert.equal(ports.length, isServer ? 1 : 0, name);
      for (const { host_ip: address } of ports) assert.equal(address, '127.0.0.1');
      for (const network of Object.keys(networks))
        assert.equal(
          model.networks[network]?.internal === true,
          !isServer || network !== 'public',
          `${name} ${network}`,
        );
    }
  });

  test('runs this release with existing settings, and gives it time to stop', () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
    for (const [name, { image, command, environment = {}, stop_grace_period: grace, healthcheck }] of servers) {
      assert.equal(image, `tabularium:${version}`);
      assert.deepEqual(command, ['serve']);
      requireKnownVariables(Object.keys(environment));
      const { TABULARIUM_CONFIG: _, ...withoutFile } = environment;
      const settings = readSettings([], withoutFile);
      for (const host of settings.clusterHosts.split(',')) assert.ok(host in model.services, host);
      assert.equal(settings.internalUrl, `https://${name}:${settings.port}`);
      assert.ok(healthcheck.test.join(' ').includes(`https://localhost:${settings.port}/readyz`));
      assert.equal(grace, '1m0s');
      assert.ok(60_000 > settings.shutdownTimeoutMs);
    }
  });

  test('names hosts in the configuration of ClickHouse that exist', () => {
    const hosts = [...xmlValues('cluster.xml', 'host'), ...xmlValues('keeper.xml', 'hostname')];
    assert.equal(hosts.length, 9);
    for (const host of hosts) assert.ok(host in model.services, host);
    for (const [name, { environment = {} }] of Object.entries(model.services)) {
      if (name.startsWith('clickhouse-')) assert.equal(environment.TABULARIUM_REPLICA, name);
      if (name.startsWith('keeper-')) assert.equal(`keeper-${environment.TABULARIUM_KEEPER_ID}`, name);
    }
  });

  describe('with its secrets', () => {
    let directory: string;
    let secrets: string;
    const secret = (name: string): string => readFileSync(join(secrets, name), 'utf8');
    before(() => {
      directory = mkdtempSync(join(tmpdir(), 'tabularium-secrets-'));
      secrets = join(directory, 'secrets');
      execFileSync('bash', [join(composeDirectory, 'make_secrets.sh'), secrets, 'warehouse.example', 'IP:192.0.2.7']);
    });
    after(() => rmSync(directory, { recursive: true }));

    test('every file that is mounted exists, and the directory protects them', () => {
      for (const { file } of Object.values(model.configs)) assert.ok(existsSync(file), file);
      const written = readdirSync(secrets);
      for (const [name, { file }] of Object.entries(model.secrets)) {
        assert.ok(file.endsWith(`/secrets/${name}`), file);
        assert.ok(written.includes(name), name);
      }
      assert.equal(statSync(secrets).mode & 0o777, 0o700);
      // Used by the operator only.
      const unused = written.filter((name) => !(name in model.secrets));
      assert.deepEqual(unused, ['ca.key', 'clickhouse_password']);
      for (const name of unused) assert.equal(statSync(join(secrets, name)).mode & 0o777, 0o400);
    });

    test('they are written once', () => {
      assert.throws(
        () => execFileSync('bash', [join(composeDirectory, 'make_secrets.sh'), secrets], { stdio: 'pipe' }),
        /exists already/,
      );
    });

    test('certificates are valid for the names at which their servers are reached', () => {
      const names = {
        server: ['server-1', 'server-2', 'localhost', 'warehouse.example'],
        postgres: ['postgres'],
        clickhouse: Object.keys(model.services).filter((name) => /^(clickhouse|keeper)-/.test(name)),
      };
      for (const [file, hosts] of Object.entries(names)) {
        for (const host of hosts) {
          const words = [
            'verify',
            '-CAfile',
            join(secrets, 'ca.pem'),
            '-purpose',
            'sslserver',
            '-verify_hostname',
            host,
          ];
          execFileSync('openssl', [...words, join(secrets, `${file}.pem`)], { stdio: 'pipe' });
        }
      }
    });

    test('the passwords of PostgreSQL and ClickHouse are those that the servers use', () => {
      const { store } = JSON.parse(secret('tabularium_config.json')) as { store: string };
      const url = new URL(store);
      assert.equal(url.password, secret('postgres_password'));
      assert.ok(url.hostname in model.services);
      const { environment = {} } = model.services.postgres as Service;
      assert.deepEqual([url.username, url.pathname], [environment.POSTGRES_USER, `/${environment.POSTGRES_DB}`]);
      assert.equal(url.searchParams.get('sslmode'), 'verify-full');
    });

    test('a server starts with its environment and serves HTTPS', { skip: missingPostgresql }, async (t) => {
      const [[, { environment = {} }]] = servers as [readonly [string, Service]];
      const inDirectory = Object.entries(environment).map(([name, value]) => [
        name,
        value.replaceAll('/run/secrets', secrets).replace('/var/lib/tabularium', join(directory, 'data')),
      ]);
      const config = join(directory, 'config.json');
      writeFileSync(config, JSON.stringify({ store: urlOfDatabase(await newStoreDatabase()) }));
      const settings = readSettings(['--port', '0'], { ...Object.fromEntries(inDirectory), TABULARIUM_CONFIG: config });
      const server = await startServer(settings);
      t.after(() => server.close());
      const { port } = new URL(server.url);
      const { promise, resolve, reject } = Promise.withResolvers<string>();
      const ready = request({ host: 'localhost', port, path: '/readyz', ca: secret('ca.pem') }, (response) =>
        text(response).then((body) => resolve(`${response.statusCode} ${body}`), reject),
      );
      ready.on('error', reject).end();
      assert.equal(await promise, '200 ready\n');
    });
  });
});
