// Checks of a metadata store in PostgreSQL, also while servers use it: whether it can be reached, its schema, its connections and its clock.
// It changes nothing.
import { resolve } from 'node:path';
import pg from 'pg';
import type { Settings } from '../../settings/read_settings.ts';
import { migrations, oldestServerOf, schemaVersion, tooNewText } from '../../store/migrations/migrate.ts';
import { openPostgresqlStore } from '../../store/postgresql/postgresql_store.ts';
import {
  hostsOf,
  type PostgresqlHost,
  type PostgresqlLocation,
  parsePostgresqlUrl,
} from '../../store/postgresql/postgresql_url.ts';
import { secretsOf } from '../data_directory.ts';
import { backendFindings, type StoredBackend } from './backend_checks.ts';
import { type Finding, good, wrong, wrongBecause } from './finding.ts';

const clockMsMax = 2_000;
const waitMs = 10_000;
/** Of each server, besides `storeConnections`: the one that follows changes, and that of a command. */
const furtherConnections = 2;

export async function postgresqlFindings(settings: Settings): Promise<readonly Finding[]> {
  const location = parsePostgresqlUrl(settings.store);
  const { client, findings } = await connected(location);
  if (!client) return findings;
  try {
    const schema = await schemaFindings(client);
    const found = [
      ...findings,
      await clockFinding(client),
      ...schema.findings,
      await connectionsFinding(client, settings, schema.isCurrent),
    ];
    if (!schema.isCurrent) return found;
    const { rows } = await client.query<StoredBackend>(`select name, spec from objects where category = 'backends'`);
    return [...found, ...(await secretsFindings(client, location, settings)), ...(await backendFindings(rows))];
  } catch (error) {
    return [...findings, wrong('store', `PostgreSQL refused to be read: ${problemOf(error, location)}`)];
  } finally {
    await client.end().catch(() => undefined);
  }
}

interface Connected {
  readonly client?: pg.Client;
  readonly findings: readonly Finding[];
}

/** To the first host that accepts changes. Hosts that do not respond are wrong only if there is no such host. */
async function connected(location: PostgresqlLocation): Promise<Connected> {
  const failed: Finding[] = [];
  for (const host of hostsOf(location)) {
    const { tls, others: _, ...own } = { ...location, ...host };
    const client = new pg.Client({
      ...own,
      ssl: tls ?? false,
      connectionTimeoutMillis: waitMs,
      query_timeout: waitMs,
      application_name: 'tabularium doctor',
    });
    client.on('error', () => undefined);
    try {
      await client.connect();
      const { rows } = await client.query<{ encoding: string; read_only: string }>(
        `select current_setting('server_encoding') as encoding, current_setting('transaction_read_only') as read_only`,
      );
      const problem = databaseProblem(rows[0], host);
      if (problem === undefined)
        return {
          client,
          findings: [good('store', `the database at ${placeOf(host)} accepts connections and changes`)],
        };
      failed.push(wrong('store', problem));
    } catch (error) {
      failed.push(wrong('store', problemOf(error, { ...location, ...host })));
    }
    await client.end().catch(() => undefined);
  }
  return { findings: failed };
}

const placeOf = ({ host, port }: PostgresqlHost): string => `${host}:${port}`;

function databaseProblem(
  row: { readonly encoding: string; readonly read_only: string } | undefined,
  host: PostgresqlHost,
): string | undefined {
  if (row?.read_only === 'on')
    return `the database at ${placeOf(host)} accepts no changes (a standby, or set to read only): name the primary server in the setting store`;
  return row?.encoding === 'UTF8'
    ? undefined
    : `the database has the encoding ${row?.encoding}: create one with UTF8, and name it in the setting store`;
}

/** What keeps a connection from being made, with what to do, by the code of PostgreSQL or of the system. */
function problemOf(error: unknown, location: PostgresqlLocation): string {
  const { message, code = '' } = error as Error & { readonly code?: string };
  const { database } = location;
  const place = placeOf(location);
  if (/^28/.test(code))
    return `PostgreSQL at ${place} refuses the user (${message}): correct the user in the setting store, or the password in PGPASSWORD or the file of PGPASSFILE`;
  if (code === '3D000')
    return `there is no database ${database} at ${place}: create it (CREATE DATABASE ... ENCODING 'UTF8'), or correct the setting store`;
  if (code === '53300')
    return `PostgreSQL at ${place} has no free connection (${message}): raise its max_connections, lower storeConnections of the servers, or end other clients`;
  if (code === '42501')
    return `the user of the store may not read it (${message}): grant it the tables, or connect as their owner`;
  return `PostgreSQL cannot be reached at ${place} (${message || code}): check that it runs and accepts connections from this machine, and the setting store`;
}

async function clockFinding(client: pg.Client): Promise<Finding> {
  const before = Date.now();
  const { rows } = await client.query<{ ms: string }>('select extract(epoch from clock_timestamp()) * 1000 as ms');
  const offsetMs = Number(rows[0]?.ms) - (before + Date.now()) / 2;
  return Math.abs(offsetMs) <= clockMsMax
    ? good('clock', `the clocks of this machine and the database differ by ${Math.round(Math.abs(offsetMs))} ms`)
    : wrong(
        'clock',
        `the clock of this machine is ${Math.round(Math.abs(offsetMs) / 1000)} s ${offsetMs > 0 ? 'behind' : 'ahead of'} that of the database: let NTP set both`,
      );
}

interface SchemaState {
  /** The tables are those of this release. */
  readonly isCurrent: boolean;
  readonly findings: readonly Finding[];
}

async function schemaFindings(client: pg.Client): Promise<SchemaState> {
  const { rows } = await client.query<{ versions: string | null; range: string | null; may_create: boolean | null }>(
    `select to_regclass('schema_versions')::text as versions, to_regclass('schema_range')::text as range,
       has_schema_privilege(current_schema(), 'create') as may_create`,
  );
  const { versions, range, may_create: mayCreate } = rows[0] ?? {};
  if (!mayCreate)
    return {
      isCurrent: false,
      findings: [
        wrong(
          'schema',
          'the user of the store may not create tables in its schema: GRANT CREATE, or make it the owner',
        ),
      ],
    };
  if (!versions)
    return {
      isCurrent: false,
      findings: [good('schema', 'the database is empty; the first server creates the tables')],
    };
  const version = await numberOf(client, 'select max(version) as n from schema_versions');
  const oldest = (range && (await numberOf(client, 'select oldest_server as n from schema_range'))) || version;
  return { isCurrent: version === schemaVersion, findings: [schemaFinding(version, oldest)] };
}

/** Of a database that servers have used: a new one has no secrets yet. */
async function secretsFindings(
  client: pg.Client,
  location: PostgresqlLocation,
  settings: Settings,
): Promise<readonly Finding[]> {
  if ((await numberOf(client, 'select count(*) as n from secrets')) === 0) return [];
  const store = await openPostgresqlStore({ location, limits: { connectionsMax: 1 } });
  try {
    await secretsOf(settings, store, resolve(settings.dataDir));
    return [good('secrets', 'the key opens the secrets')];
  } catch (error) {
    return [wrongBecause('secrets', error)];
  } finally {
    await store.close();
  }
}

async function numberOf(client: pg.Client, sql: string): Promise<number> {
  const { rows } = await client.query<{ n: number | string | null }>(sql);
  return Number(rows[0]?.n ?? 0);
}

function schemaFinding(version: number, oldest: number): Finding {
  if (version === schemaVersion)
    return good('schema', `the tables have version ${version}, which is that of this release`);
  if (version > schemaVersion)
    return oldest > schemaVersion
      ? wrong('schema', tooNewText(version, oldest, schemaVersion))
      : good('schema', `the tables have version ${version} of a later release, which servers of this one can use`);
  const needed = oldestServerOf(migrations);
  const others =
    needed > version
      ? 'Stop the servers of earlier releases first, which cannot use it afterwards'
      : 'Servers of the release before can continue';
  return wrong(
    'schema',
    `the tables have version ${version}, and this release version ${schemaVersion}: the first server of this release that starts migrates them, and nothing migrates them back. Take a backup of the database before (pg_dump). ${others}`,
  );
}

interface ConnectionLimits {
  readonly max: string;
  readonly reserved: string;
  readonly role_limit: number;
  readonly database_limit: number;
  readonly others: string;
}

async function connectionsFinding(
  client: pg.Client,
  { storeConnections }: Settings,
  isCurrent: boolean,
): Promise<Finding> {
  const { rows } = await client.query<ConnectionLimits>(
    `select current_setting('max_connections') as max,
       current_setting('superuser_reserved_connections')::int + coalesce(current_setting('reserved_connections', true)::int, 0) as reserved,
       (select rolconnlimit from pg_roles where rolname = current_user) as role_limit,
       (select datconnlimit from pg_database where datname = current_database()) as database_limit,
       (select count(*) from pg_stat_activity where backend_type = 'client backend' and datname <> current_database()) as others`,
  );
  const [limits] = rows;
  const running = 'select count(*) as n from servers where lease_until > extract(epoch from clock_timestamp()) * 1000';
  const servers = isCurrent ? await numberOf(client, running) : 0;
  const needed = Math.max(1, servers) * (storeConnections + furtherConnections);
  const own = [limits?.role_limit, limits?.database_limit].filter(
    (each) => each !== undefined && each >= 0,
  ) as number[];
  const free = Math.min(Number(limits?.max) - Number(limits?.reserved) - Number(limits?.others), ...own);
  const users = servers > 1 ? `${servers} servers with` : 'a server with';
  return free >= needed
    ? good(
        'connections',
        `PostgreSQL permits ${free} connections, and ${users} storeConnections ${storeConnections} uses up to ${needed}`,
      )
    : wrong(
        'connections',
        `PostgreSQL permits ${free} connections to this database, and ${users} storeConnections ${storeConnections} uses up to ${needed}: raise max_connections (or the limit of the user or the database), or lower storeConnections`,
      );
}
