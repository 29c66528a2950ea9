// Every setting of the server, in one table: flags, environment variables, keys of the configuration file, `--help` and
// docs/configuration.md all come from it. settings.ts reads it; what a setting does is up to whom main.ts hands it to.
import { GiB, KiB, MiB, type Setting, TiB } from './setting.ts';
import { backupCommandSettings, backupSettings } from './settings_of_backups.ts';
import { callerSettings } from './settings_of_callers.ts';
import { dataSettings } from './settings_of_data.ts';
import { outsideSettings } from './settings_of_outside.ts';

export const sections = [
  'Server',
  'Demo',
  'Limits of HTTP',
  'Limits of callers',
  'Data',
  'Queries and tasks',
  'Defaults of warehouses',
  'Commands',
  'Other',
] as const;

export type Section = (typeof sections)[number];

export const configFileName = 'config.json';

const define = <const T extends Readonly<Record<string, Setting & { readonly section: Section }>>>(table: T): T =>
  table;

export const settings = define({
  host: {
    section: 'Server',
    type: 'string',
    default: '127.0.0.1',
    doc: 'The address to listen on.',
  },
  port: {
    section: 'Server',
    type: 'port',
    min: 0,
    max: 65_535,
    default: 8030,
    doc: 'The TCP port to listen on; 0 takes any that is free.',
  },
  dataDir: {
    section: 'Server',
    type: 'path',
    default: './data',
    doc: 'The directory that holds everything the server keeps; it is created if it is not there.',
  },
  config: {
    section: 'Server',
    type: 'path',
    only: 'flag and variable',
    default: '',
    doc: `The configuration file (JSON); without it, \`${configFileName}\` in the data directory is read if it is there.`,
  },
  logLevel: {
    section: 'Server',
    type: 'enum',
    values: ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
    default: 'info',
    doc: 'The least serious lines that the log has; `debug` adds successful reads.',
  },
  shutdownTimeoutMs: {
    section: 'Server',
    type: 'integer',
    min: 0,
    max: 600_000,
    default: 10_000,
    doc: 'How long requests in flight may take to end once the server is told to stop.',
  },
  insecure: {
    section: 'Server',
    type: 'boolean',
    default: false,
    doc: 'Lets the server listen beyond loopback without TLS, where something in front of it does TLS; it refuses otherwise.',
  },
  tlsCertFile: {
    section: 'Server',
    type: 'path',
    default: '',
    doc: 'The certificate and its chain (PEM) for HTTPS, together with `tlsKeyFile`; read again when the files change.',
  },
  tlsKeyFile: {
    section: 'Server',
    type: 'path',
    default: '',
    doc: 'The private key (PEM, without a passphrase) of `tlsCertFile`.',
  },
  tlsMinVersion: {
    section: 'Server',
    type: 'enum',
    values: ['TLSv1.2', 'TLSv1.3'],
    default: 'TLSv1.2',
    doc: 'The oldest version of TLS that is spoken.',
  },
  hstsMaxAgeSeconds: {
    section: 'Server',
    type: 'integer',
    min: 0,
    max: 63_072_000,
    default: 31_536_000,
    doc: 'With TLS, how long browsers are to ask this host by HTTPS only (`Strict-Transport-Security`, on all its ports); 0 says nothing.',
  },
  trustedProxies: {
    section: 'Server',
    type: 'string',
    default: '',
    doc: 'Addresses or CIDR blocks, separated by commas, of proxies whose `X-Forwarded-For` is believed.',
  },
  secretKeyFile: {
    section: 'Server',
    type: 'path',
    default: '',
    doc: 'The file with the key that encrypts the secrets in the store: 32 random bytes in base64 or hexadecimal. Without it and `TABULARIUM_SECRET_KEY`, `secret.key` in the data directory, which the first start makes.',
  },
  secretKey: {
    section: 'Server',
    type: 'string',
    only: 'variable',
    default: '',
    doc: 'The key itself, in place of `secretKeyFile`.',
  },
  openApiNeedsCredentials: {
    section: 'Server',
    type: 'boolean',
    default: false,
    doc: 'Shows `/openapi.json` only to callers with credentials; otherwise it is open to everyone.',
  },
  auditRetentionDays: {
    section: 'Server',
    type: 'integer',
    min: 1,
    max: 36_500,
    default: 365,
    doc: 'How long lines of the audit trail are kept.',
  },
  demo: {
    section: 'Demo',
    type: 'boolean',
    default: false,
    doc: 'Creates, loads and queries the Star Schema Benchmark through the REST API, then goes on serving.',
  },
  scale: {
    section: 'Demo',
    type: 'number',
    min: 0.001,
    max: 100,
    default: 0.1,
    doc: 'The scale factor of the demo; 1 is 6,000,000 rows in `lineorder`.',
  },
  requestBodyBytesMax: {
    section: 'Limits of HTTP',
    type: 'bytes',
    min: KiB,
    max: GiB,
    default: 4 * MiB,
    doc: 'The largest body of a request, rows apart.',
  },
  requestBodyValuesMax: {
    section: 'Limits of HTTP',
    type: 'integer',
    min: 1000,
    max: 100_000_000,
    default: 100_000,
    doc: 'How many values (members of objects and elements of arrays) the body of a request may have, rows apart.',
  },
  rowsBodyBytesMax: {
    section: 'Limits of HTTP',
    type: 'bytes',
    min: KiB,
    max: 16 * GiB,
    default: 64 * MiB,
    doc: 'The largest body of a request that inserts rows.',
  },
  headersBytesMax: {
    section: 'Limits of HTTP',
    type: 'bytes',
    min: 8 * KiB,
    max: MiB,
    default: 32 * KiB,
    doc: 'The largest head of a request: its first line and its headers together.',
  },
  headersTimeoutMs: {
    section: 'Limits of HTTP',
    type: 'integer',
    min: 100,
    max: 600_000,
    default: 10_000,
    doc: 'How long a client may take to send the head of a request; at most `requestTimeoutMs`.',
  },
  requestTimeoutMs: {
    section: 'Limits of HTTP',
    type: 'integer',
    min: 100,
    max: 86_400_000,
    default: 120_000,
    doc: 'How long a client may take to send a whole request.',
  },
  keepAliveTimeoutMs: {
    section: 'Limits of HTTP',
    type: 'integer',
    min: 0,
    max: 3_600_000,
    default: 65_000,
    doc: 'How long an idle connection is kept; 0 keeps it for ever. Behind a proxy, it is to be longer than the proxy keeps one.',
  },
  connectionsMax: {
    section: 'Limits of HTTP',
    type: 'integer',
    min: 1,
    max: 1_000_000,
    default: 20_000,
    doc: 'How many connections may be open at once; more are closed as they come.',
  },
  connectionsPerAddressMax: {
    section: 'Limits of HTTP',
    type: 'integer',
    min: 0,
    max: 1_000_000,
    default: 1000,
    doc: 'How many connections one address (IPv6: one /64) may have, `trustedProxies` apart; more are closed as they come; 0 is no limit.',
  },
  requestsPerConnectionMax: {
    section: 'Limits of HTTP',
    type: 'integer',
    min: 0,
    max: 1_000_000_000,
    default: 0,
    doc: 'After how many requests a connection is closed, so that clients spread over servers anew; 0 is no limit.',
  },
  headersCountMax: {
    section: 'Limits of HTTP',
    type: 'integer',
    min: 20,
    max: 2000,
    default: 200,
    doc: 'How many headers a request may have.',
  },
  tlsHandshakeTimeoutMs: {
    section: 'Limits of HTTP',
    type: 'integer',
    min: 100,
    max: 600_000,
    default: 10_000,
    doc: 'How long a client may take for the TLS handshake.',
  },
  ...callerSettings,
  queueWaitMs: {
    section: 'Queries and tasks',
    type: 'integer',
    min: 0,
    max: 3_600_000,
    default: 30_000,
    doc: 'How long a statement waits in the queue of its warehouse before it is answered with 503 `WAREHOUSE_BUSY`.',
  },
  pageBytesMax: {
    section: 'Queries and tasks',
    type: 'bytes',
    min: 64 * KiB,
    max: 256 * MiB,
    default: 8 * MiB,
    doc: 'The size of one page of a result; a larger result is read page by page.',
  },
  recordCacheBytesMax: {
    section: 'Queries and tasks',
    type: 'bytes',
    min: 0,
    max: 64 * GiB,
    default: 64 * MiB,
    doc: 'Memory for records kept ready to send; 0 keeps none.',
  },
  taskRunnersMax: {
    section: 'Queries and tasks',
    type: 'integer',
    min: 1,
    max: 256,
    default: 4,
    doc: 'How many tasks run at once.',
  },
  taskRetentionDays: {
    section: 'Queries and tasks',
    type: 'integer',
    min: 1,
    max: 3650,
    default: 7,
    doc: 'How long the record and the result of an ended task are kept.',
  },
  ...dataSettings,
  ...outsideSettings,
  ...backupSettings,
  queryHistoryMax: {
    section: 'Queries and tasks',
    type: 'integer',
    min: 0,
    max: 100_000_000,
    default: 100_000,
    doc: 'How many queries the history keeps; the oldest go first.',
  },
  warehouseThreads: {
    section: 'Defaults of warehouses',
    type: 'integer',
    min: 0,
    max: 1024,
    default: 0,
    doc: 'Threads of a warehouse; 0 is one for each core of the machine.',
  },
  warehouseMemoryBytes: {
    section: 'Defaults of warehouses',
    type: 'bytes',
    min: 0,
    max: 64 * TiB,
    default: 0,
    doc: "Memory of a warehouse; 0 is half of the machine's.",
  },
  warehouseSpillBytes: {
    section: 'Defaults of warehouses',
    type: 'bytes',
    min: 0,
    max: 1024 * TiB,
    default: 10 * GiB,
    doc: 'Disk that a warehouse may use for what does not fit in its memory.',
  },
  warehouseAutoSuspendSeconds: {
    section: 'Defaults of warehouses',
    type: 'integer',
    min: 0,
    max: 31_536_000,
    default: 600,
    doc: 'Idle time after which a warehouse is suspended; 0 is never.',
  },
  warehouseQueriesMax: {
    section: 'Defaults of warehouses',
    type: 'integer',
    min: 1,
    max: 30,
    default: 16,
    doc: 'How many statements a warehouse runs at once; more wait in its queue. One principal gets all of these slots but one.',
  },
  warehouseQueueMax: {
    section: 'Defaults of warehouses',
    type: 'integer',
    min: 0,
    max: 100_000,
    default: 100,
    doc: 'How many statements wait in the queue of a warehouse. When it is full, the latest statement of the principal that has most of them in it is answered with 503 `WAREHOUSE_BUSY`.',
  },
  warehouseStatementTimeoutSeconds: {
    section: 'Defaults of warehouses',
    type: 'integer',
    min: 1,
    max: 604_800,
    default: 3600,
    doc: 'How long a statement may run.',
  },
  engineConfinement: {
    section: 'Queries and tasks',
    type: 'enum',
    values: ['auto', 'required', 'off'],
    default: 'auto',
    doc: 'Whether engines run in Linux namespaces of their own, without network and with nothing of the machine but their program and data: `auto`, where the platform allows it; `required`, or they do not start; `off`.',
  },
  newKeyFile: {
    section: 'Commands',
    type: 'path',
    only: 'flag',
    command: 'secrets rotate',
    default: '',
    doc: 'For `secrets rotate`: the file that holds the new key. It is used from there, and the old file is left alone.',
  },
  secretKeyNew: {
    section: 'Commands',
    type: 'string',
    only: 'variable',
    default: '',
    doc: 'For `secrets rotate`: the new key itself. A server that has it too opens a store that is encrypted with either.',
  },
  ...backupCommandSettings,
  help: { section: 'Other', type: 'boolean', only: 'flag', default: false, doc: 'Prints this text and ends.' },
  version: { section: 'Other', type: 'boolean', only: 'flag', default: false, doc: 'Prints the version and ends.' },
});

export type SettingName = keyof typeof settings;

type ValueOf<S> = S extends { readonly type: 'boolean' }
  ? boolean
  : S extends { readonly type: 'enum'; readonly values: readonly (infer V)[] }
    ? V
    : S extends { readonly type: 'string' | 'path' }
      ? string
      : number;

export type Settings = { readonly [N in SettingName]: ValueOf<(typeof settings)[N]> };
