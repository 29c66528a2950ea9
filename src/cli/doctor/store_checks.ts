// Checks of the metadata store and what is in it: pages and catalogs as `check` reads them, the key of the secrets, the clock, and whether the
// servers of clusters accept connections.
import { connect } from 'node:net';
import { resolve } from 'node:path';
import { sql } from 'kysely';
import pg from 'pg';
import type { Settings } from '../../settings/read_settings.ts';
import { isShared } from '../../store/open_store.ts';
import { parsePostgresqlUrl } from '../../store/postgresql/postgresql_url.ts';
import type { Command } from '../command.ts';
import { secretsOf, withStore } from '../data_directory.ts';
import { type Finding, good, wrong, wrongBecause } from './finding.ts';

const clockMsMax = 2_000;
/** Of a change that is in the store: its time was that of this machine. */
const futureMsMax = 60_000;
const connectMs = 3_000;
const postgresqlMs = 10_000;

interface StoredBackend {
  readonly name: string;
  readonly spec: string;
}

/** Of a stopped server with a store in its data directory. Reads everything, as `check` does. */
export async function sqliteFindings(settings: Settings, check: Command): Promise<readonly Finding[]> {
  const found: Finding[] = [...(await checkFindings(settings, check))];
  try {
    await withStore(settings, async ({ store }) => {
      const dataDirectory = resolve(settings.dataDir);
      found.push(
        await secretsOf(settings, store, dataDirectory).then(
          () => good('secrets', 'the key opens the secrets'),
          (error: unknown) => wrongBecause('secrets', error),
        ),
      );
      const newest = await sql<{ at: number | null }>`select max(updated_at) as at from objects`.execute(store.db);
      found.push(pastFinding(Number(newest.rows[0]?.at ?? 0)));
      const backends = await store.db
        .selectFrom('objects')
        .select(['name', 'spec'])
        .where('category', '=', 'backends')
        .execute();
      found.push(...(await backendFindings(backends)));
    });
  } catch (error) {
    found.push(wrongBecause('store', error));
  }
  return found;
}

async function checkFindings(settings: Settings, check: Command): Promise<readonly Finding[]> {
  const lines: string[] = [];
  const { exitCode } = process;
  try {
    await check.run({ ...settings, repair: 'none', catalog: '' }, (line) => lines.push(line));
  } catch (error) {
    return [wrongBecause('store', error)];
  } finally {
    process.exitCode = exitCode;
  }
  const faults = lines.filter((line) => /^(FAULT|DAMAGED)/.test(line));
  if (faults.length === 0) return [good('store', 'the metadata store and the catalogs are as they were written')];
  return faults.map((line) =>
    wrong(
      line.startsWith('DAMAGED') ? 'catalog' : 'store',
      `${line.replace(/^\w+:? */, '')}: \`tabularium check\` says what each --repair would lose`,
    ),
  );
}

function pastFinding(newestMs: number): Finding {
  const ahead = newestMs - Date.now();
  return ahead <= futureMsMax
    ? good('clock', 'no change of the store is in the future')
    : wrong(
        'clock',
        `the clock of this machine is at least ${Math.round(ahead / 1000)} s behind a change in the store: set it, and let NTP keep it right`,
      );
}

/** Of a store that several servers share, also while they run. Only reads. */
export async function postgresqlFindings({ store }: Settings): Promise<readonly Finding[]> {
  const { tls, others: _, ...location } = parsePostgresqlUrl(store);
  const client = new pg.Client({
    ...location,
    ssl: tls ?? false,
    connectionTimeoutMillis: postgresqlMs,
    query_timeout: postgresqlMs,
  });
  client.on('error', () => undefined);
  try {
    await client.connect();
    const before = Date.now();
    const { rows: times } = await client.query<{ ms: string; tables: string | null }>(
      `select extract(epoch from clock_timestamp()) * 1000 as ms, to_regclass('objects')::text as tables`,
    );
    const offset = Number(times[0]?.ms) - (before + Date.now()) / 2;
    const found = [good('store', 'the database accepts connections'), offsetFinding(offset)];
    if (times[0]?.tables === null) return found;
    const { rows } = await client.query<StoredBackend>(`select name, spec from objects where category = 'backends'`);
    return [...found, ...(await backendFindings(rows))];
  } catch (error) {
    const { message, code } = error as Error & { readonly code?: string };
    return [
      wrong(
        'store',
        `PostgreSQL cannot be reached (${message || code}): check that it runs, the setting store, and the password in PGPASSWORD`,
      ),
    ];
  } finally {
    await client.end().catch(() => undefined);
  }
}

const offsetFinding = (offsetMs: number): Finding =>
  Math.abs(offsetMs) <= clockMsMax
    ? good('clock', `the clocks of this machine and the database differ by ${Math.round(Math.abs(offsetMs))} ms`)
    : wrong(
        'clock',
        `the clock of this machine is ${Math.round(Math.abs(offsetMs) / 1000)} s ${offsetMs > 0 ? 'behind' : 'ahead of'} that of the database: let NTP set both`,
      );

/** Servers of clusters have a URL; processes of this server have none. */
async function backendFindings(backends: readonly StoredBackend[]): Promise<readonly Finding[]> {
  const found = await Promise.all(
    backends.map(async ({ name, spec }) => {
      const { location = '', disabled = false } = JSON.parse(spec) as { location?: string; disabled?: boolean };
      const url = URL.parse(location);
      if (!url || url.hostname === '' || disabled) return undefined;
      const reason = await unreachable(url);
      const check = `backend ${name}`;
      return reason === undefined
        ? good(check, `${url.host} accepts connections`)
        : wrong(
            check,
            `${url.host} does not accept connections (${reason}): start it, or take it out with \`tabularium backends decommission\``,
          );
    }),
  );
  return found.filter((finding) => finding !== undefined);
}

/** The reason; undefined: it accepts connections. */
function unreachable({ hostname, port, protocol }: URL): Promise<string | undefined> {
  const fallback = protocol === 'https:' ? 443 : 80;
  return new Promise((done) => {
    const socket = connect({
      host: hostname.replace(/^\[|\]$/g, ''),
      port: Number(port) || fallback,
      timeout: connectMs,
    });
    const end = (reason: string | undefined) => {
      socket.destroy();
      done(reason);
    };
    socket.once('connect', () => end(undefined));
    socket.once('timeout', () => end(`no answer within ${connectMs} ms`));
    socket.once('error', ({ code = 'unknown error' }: NodeJS.ErrnoException) => end(code));
  });
}

export const usesPostgresql = ({ store }: Settings): boolean => isShared(store);
