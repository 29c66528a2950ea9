// The steps that were applied, and those that were undone before they arrived, on each server of the cluster. A record is on most servers,
// and most servers are asked, so that one that is down neither hides a record nor keeps one from being made.
import { setTimeout as pause } from 'node:timers/promises';
import { newId } from '../../../model/ids.ts';
import type { Code } from '../../../standard/codes.ts';
import { Failure, withOutcome } from '../../../standard/failure.ts';
import type { CatalogRef } from '../../port/refs.ts';
import type { InsertStep, StepsPage } from '../../port/rows.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { serverFailure } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import { internalDatabase } from '../names.ts';
import { isAbsent } from '../replication/server_errors.ts';
import { qualifiedName, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { type RecordTable, stepsTable } from './record_copies.ts';
import { RecordExchanges } from './record_exchanges.ts';

const table = stepsTable;
const attemptsTable = qualifiedName({ database: internalDatabase, table: 'attempts' });
const callTimeoutMs = 15_000;
/** A load takes at most this time to publish what it has recorded. */
const pendingMinutes = 10;
/** In one query. A move carries over all steps of a catalog, and a query has a length to which servers parse it. */
const stepsPerQuery = 500;
/** Longer than any caller repeats a step, and than a call can be late. */
const retentionDays = 30;
const repairMsMax = 600_000;
/** Several records may be missed at once. */
const missedPauseMs = 2000;

const recordTables: readonly RecordTable[] = [
  { name: table, columns: ['state', 'row_count', 'batch', 'attempt'], content: ['payload'] },
  { name: attemptsTable, columns: ['attempt'], content: [] },
];

/**
 * `applied`: its work is done. `undone`: it must do nothing when it arrives. `pending`: its rows are being inserted together with those of
 * other steps; `batch` and `payload` say which. `refused`: nobody but who repeats a pending step tries again what the servers have refused; a later
 * attempt of the step is pending again.
 * `failed`: nobody does, because it may be done in part; `payload` has the code and message of every repetition.
 */
type StepState = 'applied' | 'undone' | 'pending' | 'refused' | 'failed';

export interface StepRecord {
  readonly step: string;
  readonly state: StepState;
  readonly rowCount?: number | undefined;
  readonly batch?: string | undefined;
  readonly payload?: string | undefined;
  /** Of a pending step: who recorded it (`begin`). Of one that is refused: up to which attempt; all, if it is empty. */
  readonly attempt?: string | undefined;
  /** When it was first recorded, in seconds since 1970; by default, now. */
  readonly atSeconds?: number | undefined;
}

export interface PendingSearch {
  /** Of their names. */
  readonly prefix?: string;
  /** For how long they have been pending, at least. */
  readonly minutes?: number;
  /** Fields of their payloads. */
  readonly place?: { readonly database?: string; readonly localTable?: string };
}

interface StoredStep {
  readonly step: string;
  readonly state: StepState;
  readonly row_count: string;
  readonly batch: string;
  readonly payload: string;
  readonly attempt: string;
}

export interface PendingBatch {
  readonly payload: string;
  readonly steps: readonly InsertStep[];
  /** The last one that has recorded it. */
  readonly attempt: string;
  /** When it was first recorded, since 1970. */
  readonly atSeconds: number;
}

export interface FoundStep {
  readonly isApplied: boolean;
  readonly rowCount: number;
  /** Of a pending step: what counts of all that was recorded of it. */
  readonly batch: string | undefined;
}

/** Nothing was done: each attempt finds the record before it does anything. */
const notHere = new Failure('CHANGE_IN_PROGRESS', 'no available server has the record of what was begun');

function failed(payload: string): Failure {
  const { code, message }: { code: Code; message: string } = JSON.parse(payload);
  return new Failure(code, message, {}, { outcome: 'unknown' });
}

/** Of queries that aggregate: version 24.8 makes arrays nullable otherwise, and refuses that. */
const aggregates = { aggregate_functions_null_for_empty: 0 };

const separator = '~';

/** A new attempt that is greater than this one, whatever the clocks of servers say. */
function attemptAfter(attempt: string): string {
  const id = newId();
  const [beginning = ''] = attempt.split(separator);
  const next = `${beginning}${separator}${id}`;
  return next > attempt ? next : `${attempt}${separator}${id}`;
}

/** Whether a record means that nobody completes a pending step that this attempt recorded, unless it is repeated. */
const ends = ({ state, attempt }: Pick<StoredStep, 'state' | 'attempt'>, pending: string): boolean =>
  state === 'refused' ? attempt === '' || attempt >= pending : state !== 'pending';

/** Rows of the table that no other row ends (`ends`). `key`: the columns by which steps are the same. `where`: of them. */
function isNotEnded(key: string, where = '1'): string {
  const rows = `FROM ${table} WHERE ${where} AND`;
  const refused = `(${key}) IN (SELECT ${key} ${rows} state = 'refused')`;
  const attempts = `arrayFilter(one -> one <= maxIf(attempt, state = 'refused'), groupUniqArray(attempt))`;
  return (
    `(${key}) NOT IN (SELECT ${key} ${rows} (state IN ('applied', 'undone', 'failed') OR (state = 'refused' AND attempt = ''))) ` +
    `AND (${key}, attempt) NOT IN (SELECT ${key}, arrayJoin(refused) FROM (SELECT ${key}, ${attempts} AS refused ${rows} ${refused} GROUP BY ${key}))`
  );
}

const partsOf = (steps: readonly string[]): readonly (readonly string[])[] =>
  Array.from({ length: Math.ceil(steps.length / stepsPerQuery) }, (_, part) =>
    steps.slice(part * stepsPerQuery, (part + 1) * stepsPerQuery),
  );

export class AppliedSteps {
  readonly #cluster: Cluster;
  /** Servers that have the table. */
  readonly #prepared = new WeakSet<ClickHouseServer>();
  /** Servers that have missed a record. */
  readonly #repairing = new Set<ClickHouseServer>();
  readonly exchanges = new RecordExchanges(recordTables, (server) => this.#prepare(server));

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /**
   * Begins an attempt of steps. One that was begun before, and has not recorded its rows when this resolves, finds that in `requireNewest`, and does
   * nothing; what it has recorded is found from now on, and is to be completed instead. So of the batches of a step that attempts have recorded,
   * only that of the greatest attempt can have been done. `continued`: one of other steps, which continues with these. @returns the attempt; another one
   * than `continued` if the steps have a greater one.
   */
  async begin(catalog: CatalogRef, steps: readonly string[], continued?: string): Promise<string> {
    const attempt = continued ?? newId();
    const [others] = await Promise.all([
      this.#greaterAttempts(catalog, steps, attempt),
      this.#storeAttempt(catalog, steps, attempt),
    ]);
    const greatest = [...others].sort().at(-1);
    if (greatest === undefined) return attempt;
    // Another server began it at this moment, or its clock was ahead, perhaps by hours.
    const later = attemptAfter(greatest);
    await this.#storeAttempt(catalog, steps, later);
    return later;
  }

  async #storeAttempt(catalog: CatalogRef, steps: readonly string[], attempt: string): Promise<void> {
    const rows = steps.map((step) => JSON.stringify({ catalog: catalog.id, step, attempt }));
    const sql = `INSERT INTO ${attemptsTable} (catalog, step, attempt) FORMAT JSONEachRow`;
    const data = `${rows.join('\n')}\n`;
    await this.#recordedByMost((server) => server.text({ sql, data, timeoutMs: callTimeoutMs }));
  }

  /** For each of most servers, the greatest one, if that is greater than this. */
  async #greaterAttempts(catalog: CatalogRef, steps: readonly string[], attempt: string): Promise<readonly string[]> {
    const list = steps.map(quoteLiteral).join(', ');
    const sql = `SELECT attempt FROM ${attemptsTable} WHERE catalog = ${quoteLiteral(catalog.id)} AND step IN (${list}) AND attempt > ${quoteLiteral(attempt)} ORDER BY attempt DESC LIMIT 1`;
    const ask = (server: ClickHouseServer) => server.rows<{ attempt: string }>({ sql, timeoutMs: callTimeoutMs });
    return (await this.#onMost(ask)).flat().map((row) => row.attempt);
  }

  /** Call it when the steps are recorded as pending, before anything is done. Throws CHANGE_IN_PROGRESS if a greater attempt was begun. */
  async requireNewest(catalog: CatalogRef, steps: readonly string[], attempt: string): Promise<void> {
    if ((await this.#greaterAttempts(catalog, steps, attempt)).length === 0) return;
    throw new Failure('CHANGE_IN_PROGRESS', 'the request is being repeated', {}, { outcome: 'unknown' });
  }

  /** Steps that were applied or are pending. Throws CHANGE_IN_PROGRESS if one of them was undone, and the failure of one that has failed. */
  async find(catalog: CatalogRef, steps: readonly string[]): Promise<ReadonlyMap<string, FoundStep>> {
    const found = new Map<string, FoundStep & Pick<StoredStep, 'attempt'>>();
    for (const part of partsOf(steps)) {
      const answers = await this.#stored(catalog, part);
      await this.#recordOnMost(catalog, answers);
      for (const { step, state, row_count, batch, payload, attempt } of answers.flat()) {
        if (state === 'refused') continue;
        if (state === 'failed') throw failed(payload);
        if (state === 'undone') throw new Failure('CHANGE_IN_PROGRESS', 'the change was undone before it arrived');
        const isApplied = state === 'applied';
        const known = found.get(step);
        if (known?.isApplied || (!isApplied && known && known.attempt > attempt)) continue;
        found.set(step, { isApplied, rowCount: Number(row_count), batch: isApplied ? undefined : batch, attempt });
      }
    }
    return found;
  }

  /** Whether all of these steps were applied, which has begun. Throws CHANGE_IN_PROGRESS if one of them is not to be completed. */
  async areApplied(catalog: CatalogRef, steps: readonly InsertStep[]): Promise<boolean> {
    const names = steps.map(({ step }) => step);
    const stored = (await this.#stored(catalog, names)).flat();
    const isApplied = (name: string) => stored.some(({ step, state }) => step === name && state === 'applied');
    if (names.every(isApplied)) return true;
    const attempts = stored.filter(({ state }) => state === 'pending').map(({ attempt }) => attempt);
    const newest = attempts.sort().at(-1) ?? '';
    if (stored.some((row) => row.state !== 'applied' && ends(row, newest)))
      throw new Failure('CHANGE_IN_PROGRESS', 'the change was ended while it was made', {}, { outcome: 'unknown' });
    return false;
  }

  /** What each of most servers has. */
  async #stored(catalog: CatalogRef, steps: readonly string[]): Promise<readonly (readonly StoredStep[])[]> {
    if (steps.length === 0) return [];
    const list = steps.map(quoteLiteral).join(', ');
    const sql = `SELECT step, state, toString(row_count) AS row_count, batch, if(state = 'failed', payload, '') AS payload, attempt FROM ${table} WHERE catalog = ${quoteLiteral(catalog.id)} AND step IN (${list})`;
    return this.#onMost((server) => server.rows<StoredStep>({ sql, timeoutMs: callTimeoutMs }));
  }

  /** Ends of steps that some of the servers lack: a record that failed may be on a single one, and whoever asks others would not find it. */
  async #recordOnMost(catalog: CatalogRef, answers: readonly (readonly StoredStep[])[]): Promise<void> {
    const ended = answers.flatMap((rows) =>
      rows.filter(
        ({ step, state, attempt }) =>
          state !== 'pending' &&
          answers.some((other) => !other.some((row) => row.step === step && row.state === state && ends(row, attempt))),
      ),
    );
    await this.record(
      catalog,
      ended.map(({ row_count, ...record }) => ({ ...record, rowCount: Number(row_count) })),
    );
  }

  /** The steps that were applied and not undone, ordered by step. Pending ones belong to writes that are running. */
  async applied({ catalog, after = '', limit }: StepsPage): Promise<InsertStep[]> {
    const where = `catalog = ${quoteLiteral(catalog.id)} AND step > ${quoteLiteral(after)}`;
    const sql = `SELECT step, toString(max(${table}.row_count)) AS row_count FROM ${table} WHERE ${where} GROUP BY step HAVING countIf(state = 'applied') > 0 AND countIf(state = 'undone') = 0 ORDER BY step LIMIT ${limit}`;
    const answers = await this.#onMost((server) =>
      server.rows<Pick<StoredStep, 'step' | 'row_count'>>({ sql, settings: aggregates, timeoutMs: callTimeoutMs }),
    );
    const steps = new Map(answers.flat().map(({ step, row_count }) => [step, { step, rowCount: Number(row_count) }]));
    // A page ends where the answers of all servers do: one that lacks steps would be further in the order.
    return [...steps.values()].sort((a, b) => (a.step < b.step ? -1 : 1)).slice(0, limit);
  }

  async record(catalog: CatalogRef, records: readonly StepRecord[]): Promise<void> {
    if (records.length === 0) return;
    const rows = records.map(({ step, state, rowCount = 0, batch = '', payload = '', attempt = '', atSeconds: at }) =>
      JSON.stringify({ catalog: catalog.id, step, state, row_count: rowCount, batch, payload, attempt, at }),
    );
    // What has no time gets that of the server.
    const columns = 'catalog, step, state, row_count, batch, payload, attempt, at';
    const sql = `INSERT INTO ${table} (${columns}) SETTINGS input_format_defaults_for_omitted_fields = 1 FORMAT JSONEachRow`;
    const data = `${rows.join('\n')}\n`;
    const insert = (server: ClickHouseServer) => server.text({ sql, data, timeoutMs: callTimeoutMs });
    await this.#recordedByMost(insert).catch((error: unknown) => {
      const failure = serverFailure(error);
      const wasSent = !(failure instanceof Failure) || failure.code !== 'NOT_ENOUGH_BACKENDS';
      // A single server that has it suffices for others to complete what was begun.
      throw wasSent ? withOutcome(failure, 'unknown') : failure;
    });
  }

  /** A batch of pending steps. */
  async batch(catalog: CatalogRef, batch: string): Promise<PendingBatch> {
    const sql = `SELECT step, toString(row_count) AS row_count, payload, attempt, toUnixTimestamp(at) AS at FROM ${table} WHERE catalog = ${quoteLiteral(catalog.id)} AND batch = ${quoteLiteral(batch)} AND state = 'pending'`;
    const servers = await this.#cluster.servers();
    // A record that failed may be on a single server. Where it is, it is whole.
    const attempts = servers.map(async (each) => {
      const work = (server: ClickHouseServer) =>
        server.rows<Omit<StoredStep, 'state' | 'batch'> & { at: number }>({ sql, timeoutMs: callTimeoutMs });
      const rows = await this.#on(each, work);
      const payload = rows.find((row) => row.payload !== '')?.payload;
      if (payload === undefined) throw notHere;
      // Whoever completes the batch records it again.
      const counts = new Map(rows.map(({ step, row_count }) => [step, Number(row_count)]));
      const steps = [...counts].map(([step, rowCount]) => ({ step, rowCount }));
      const attempts = rows.map(({ attempt }) => attempt).sort();
      return { payload, steps, attempt: attempts.at(-1) ?? '', atSeconds: Math.min(...rows.map(({ at }) => at)) };
    });
    try {
      return await Promise.any(attempts);
    } catch (error) {
      const causes: unknown[] = error instanceof AggregateError ? error.errors : [error];
      throw causes.find((cause) => cause !== notHere) ?? notHere;
    }
  }

  /** Batches that have been pending for longer than whoever recorded them would take, and that no server has refused. */
  async pendingBatches(
    catalog: CatalogRef,
    { prefix = '', minutes = pendingMinutes, place = {} }: PendingSearch = {},
  ): Promise<readonly string[]> {
    const inCatalog = `catalog = ${quoteLiteral(catalog.id)}`;
    // As JSON has them.
    const places = Object.entries(place).map(
      ([field, value]) =>
        ` AND position(payload, ${quoteLiteral(JSON.stringify({ [field]: value }).slice(1, -1))}) > 0`,
    );
    const sql =
      `SELECT batch, min(step) AS one, max(${table}.attempt) AS newest FROM ${table} WHERE ${inCatalog} AND state = 'pending' ` +
      `AND startsWith(batch, ${quoteLiteral(prefix)}) AND at <= now('UTC') - INTERVAL ${minutes} MINUTE ` +
      `AND at >= now('UTC') - INTERVAL ${retentionDays} DAY${places.join('')} ` +
      `AND ${isNotEnded('step', inCatalog)} GROUP BY batch`;
    const answers = await this.#onMost((server) =>
      server.rows<{ batch: string; one: string; newest: string }>({
        sql,
        settings: aggregates,
        timeoutMs: callTimeoutMs,
      }),
    );
    const found = answers.flat();
    // Each of the servers may lack the end of a step: it is on most of them.
    const stored = new Map<string, StoredStep[]>();
    for (const part of partsOf([...new Set(found.map(({ one }) => one))]))
      for (const row of (await this.#stored(catalog, part)).flat())
        if (row.state !== 'pending') stored.set(row.step, [...(stored.get(row.step) ?? []), row]);
    const isPending = ({ one, newest }: { one: string; newest: string }) =>
      !stored.get(one)?.some((row) => ends(row, newest));
    return [...new Set(found.filter(isPending).map(({ batch }) => batch))];
  }

  /**
   * Batches that are pending, of all catalogs, also those of other warehouses on the same servers. Of such a warehouse only some servers may be
   * here: each of those is asked.
   */
  async pendingOfAll(prefix: string): Promise<ReadonlySet<string>> {
    const sql =
      `SELECT DISTINCT batch FROM ${table} WHERE state = 'pending' AND startsWith(batch, ${quoteLiteral(prefix)}) ` +
      `AND at >= now('UTC') - INTERVAL ${retentionDays} DAY AND ${isNotEnded('catalog, step')}`;
    const ask = (server: ClickHouseServer) =>
      server.rows<{ batch: string }>({ sql, settings: aggregates, timeoutMs: callTimeoutMs });
    const servers = await this.#cluster.servers();
    const answers = await Promise.all(servers.map((server) => this.#on(server, ask)));
    return new Set(answers.flat().map(({ batch }) => batch));
  }

  /** Resolves when most of the servers have recorded it. One of the others that does not gets it from them. */
  async #recordedByMost(work: (server: ClickHouseServer) => Promise<unknown>): Promise<void> {
    const missed = new Set<ClickHouseServer>();
    let isRecorded = false;
    await this.#onMost(work, (server) => {
      missed.add(server);
      if (isRecorded) void this.#repair(server);
    });
    isRecorded = true;
    for (const server of missed) void this.#repair(server);
  }

  /** One that is lost gets what it missed when it returns. */
  async #repair(server: ClickHouseServer): Promise<void> {
    if (this.#repairing.has(server)) return;
    this.#repairing.add(server);
    await pause(missedPauseMs, undefined, { ref: false });
    this.#repairing.delete(server);
    const available = this.#cluster.members().filter(({ isAvailable }) => isAvailable);
    if (!available.some(({ counted }) => counted === server)) return;
    const others = available.filter(({ counted }) => counted !== server);
    await this.exchanges.exchange(
      server,
      others.map(({ counted }) => ({ server: counted, isAvailable: true })),
      AbortSignal.timeout(repairMsMax),
    );
  }

  /** Resolves when most of the servers have done the work. */
  async #onMost<T>(
    work: (server: ClickHouseServer) => Promise<T>,
    failedOn: (server: ClickHouseServer) => void = () => undefined,
  ): Promise<T[]> {
    const servers = await this.#cluster.servers();
    const needed = Math.floor(servers.length / 2) + 1;
    const results: T[] = [];
    const { promise, resolve, reject } = Promise.withResolvers<T[]>();
    let failed = 0;
    if (servers.length === 0) reject(new Failure('NOT_ENOUGH_BACKENDS', 'the warehouse has no available backend'));
    for (const server of servers)
      this.#on(server, work).then(
        (result) => {
          results.push(result);
          if (results.length === needed) resolve([...results]);
        },
        (error: unknown) => {
          failedOn(server);
          if (++failed > servers.length - needed) reject(error);
        },
      );
    return promise;
  }

  async #on<T>(server: ClickHouseServer, work: (server: ClickHouseServer) => Promise<T>): Promise<T> {
    const wasPrepared = this.#prepared.has(server);
    if (!wasPrepared) await this.#prepare(server);
    try {
      return await work(server);
    } catch (error) {
      this.#prepared.delete(server);
      // The server was set up anew, or has lost its disk.
      if (wasPrepared && isAbsent(error)) return this.#on(server, work);
      throw error;
    }
  }

  async #prepare(server: ClickHouseServer): Promise<void> {
    const database = `CREATE DATABASE IF NOT EXISTS ${quoteIdentifier(internalDatabase)} ENGINE = Atomic`;
    await server.text({ sql: database, timeoutMs: callTimeoutMs });
    for (const sql of createTables) await server.text({ sql, timeoutMs: callTimeoutMs });
    this.#prepared.add(server);
  }
}

const createTables = [
  `CREATE TABLE IF NOT EXISTS ${table} (catalog String, step String, state LowCardinality(String), row_count UInt64, ` +
    `batch String, payload String, at DateTime('UTC') DEFAULT now('UTC'), attempt String) ENGINE = MergeTree ORDER BY (catalog, step) ` +
    `TTL at + INTERVAL ${retentionDays} DAY`,
  // Earlier versions have made it without the column.
  `ALTER TABLE ${table} ADD COLUMN IF NOT EXISTS attempt String`,
  `CREATE TABLE IF NOT EXISTS ${attemptsTable} (catalog String, step String, attempt String, at DateTime('UTC') DEFAULT now('UTC')) ` +
    `ENGINE = MergeTree ORDER BY (catalog, step) TTL at + INTERVAL ${retentionDays} DAY`,
];
