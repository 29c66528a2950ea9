// Servers that cannot replicate: a server that returns gets the tables that were created while it was away. Changes of rows that were
// interrupted are completed. Rows that it missed otherwise, or has lost, cannot be fetched; it is complete only if it has the rows of another copy. Nothing with rows is ever dropped here.
import { setTimeout as pause } from 'node:timers/promises';
import { Failure } from '../../../standard/failure.ts';
import type { DefinedObject, TableName } from '../../port/refs.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import { internalDatabase, parsedDatabase, parsedTable } from '../names.ts';
import { isSameDatabase as isSame, type OwnsDatabase } from '../owned_databases.ts';
import { createDatabaseAs } from '../replication/server_schema.ts';
import { qualifiedName, quoteIdentifier } from '../sql/identifiers.ts';
import type { Lack, Member } from './member.ts';
import { contentOf, hasRows, keyOf, type OwnedSchema, type OwnedTable, ownedSchema, sizeOf } from './owned_tables.ts';
import { checkSettings } from './server_facts.ts';

export interface UnreplicatedOptions {
  /** The other servers that are available. */
  readonly peers: readonly Member[];
  readonly owns: OwnsDatabase;
  readonly completeLeft: (signal: AbortSignal) => Promise<number>;
  readonly definedObject: (name: TableName) => Promise<DefinedObject | undefined>;
  /** Aborted when what is no comparison of contents takes too long from now on. */
  readonly limited: () => AbortSignal;
  readonly signal: AbortSignal;
}

const callMs = 10_000;
/** For a server to read a table whole, besides a time in proportion to its size. */
const contentMsMin = 60_000;
/** Of a disk that has other work to do. */
const contentBytesPerMs = 10_000;
/** While it reads it must answer: otherwise it is frozen. */
const answersEveryMs = 2000;
const answerMs = 5000;
const lateMax = 2;
/** Rows that are written between the readings of two servers make them differ. */
const comparisonsMax = 4;
const comparisonPauseMs = 50;
/** By which a disk is recognized that belonged to the cluster before: a server with an empty one has lost its rows. */
const marker = `${quoteIdentifier(internalDatabase)}.member`;

/** See `CatchUp.run`. */
export async function catchUpWithoutReplication(
  member: Member,
  options: UnreplicatedOptions,
): Promise<Lack | undefined> {
  const { peers, owns, limited } = options;
  const signal = limited();
  const call = { owns, timeoutMs: callMs, signal };
  const own = await ownedSchema(member.server, call);
  const isMarked = await hasMarker(member.server, signal);
  const [first, ...others] = await Promise.all(peers.map(({ server }) => ownedSchema(server, call)));
  if (first) {
    const message = await complete(member, { own, isMarked, agreed: agreedOf(first, others) }, options);
    // A new disk lacks more.
    if (message !== undefined) return { message, isBegunWork: isMarked };
  }
  if (!isMarked) await mark(member.server, limited());
  return undefined;
}

/** What all available servers have. While it differs, a change is under way. */
function agreedOf(first: OwnedSchema, others: readonly OwnedSchema[]): OwnedSchema {
  const has = ({ tables }: OwnedSchema, table: OwnedTable) => tables.some((other) => keyOf(other) === keyOf(table));
  return {
    databases: first.databases.filter((one) =>
      others.every(({ databases }) => databases.some((each) => isSame(each, one))),
    ),
    tables: first.tables.filter((table) => others.every((schema) => has(schema, table))),
  };
}

interface Comparison {
  readonly own: OwnedSchema;
  readonly isMarked: boolean;
  readonly agreed: OwnedSchema;
}

async function complete(
  member: Member,
  { own, isMarked, agreed }: Comparison,
  { peers, completeLeft, definedObject, limited, signal }: UnreplicatedOptions,
): Promise<string | undefined> {
  const isCopy = member.identity?.shardCount === 1;
  const present = new Map(own.tables.map((table) => [keyOf(table), table]));
  const missing = agreed.tables.filter((table) => !present.has(keyOf(table)));
  const wanted = new Set(agreed.tables.map(keyOf));
  const superfluous = own.tables.find((table) => hasRows(table) && !wanted.has(keyOf(table)));
  if (superfluous && missing.some(hasRows))
    return `it has the table ${superfluous.name}, which the others lack, and lacks others: it missed changes`;
  if (missing.some(hasRows) && !isCopy && !isMarked)
    return `its disk is new: the rows of its shard of ${agreed.tables.filter(hasRows).length} tables are lost`;
  const changed = agreed.tables.find((table) => {
    const existing = present.get(keyOf(table));
    return hasRows(table) && existing !== undefined && existing.createSql !== table.createSql;
  });
  if (changed) return `the definition of the table ${changed.name} differs from that of the others`;
  // What has no rows is made anew; views follow the tables that they read.
  const outdated = agreed.tables.filter((table) => {
    const existing = present.get(keyOf(table));
    return !hasRows(table) && existing !== undefined && existing.createSql !== table.createSql;
  });
  const lost = await lostTables(missing, definedObject);
  await create(
    member.server,
    { own, agreed, missing: missing.filter((table) => !lost.includes(table)), outdated },
    limited(),
  );
  if (!isCopy) return undefined;
  if (lost.length > 0) return `it has lost the rows of ${lost.length} tables, which the others have`;
  const difference = () => differenceTo(peers, member, agreed.tables.filter(hasRows), signal);
  const found = await difference();
  if (found === undefined || !isMarked) return found;
  member.takesBegunWork = true;
  member.equalTables.clear();
  return (await completeLeft(limited())) > 0 ? difference() : found;
}

/**
 * Those that were created on all servers: the rows of this server are lost with them. Other servers would read a new table without rows; without
 * one, they read another copy, or answer 503.
 */
async function lostTables(
  missing: readonly OwnedTable[],
  definedObject: UnreplicatedOptions['definedObject'],
): Promise<readonly OwnedTable[]> {
  const lost: OwnedTable[] = [];
  for (const table of missing.filter(hasRows)) {
    const parsed = parsedDatabase(table.database);
    if (parsed && (await definedObject({ ...parsed, table: parsedTable(table.name) }))) lost.push(table);
  }
  return lost;
}

async function create(
  server: ClickHouseServer,
  {
    own,
    agreed,
    missing,
    outdated,
  }: Pick<Comparison, 'own' | 'agreed'> & {
    readonly missing: readonly OwnedTable[];
    readonly outdated: readonly OwnedTable[];
  },
  signal: AbortSignal,
): Promise<void> {
  const run = (sql: string) => server.text({ sql, timeoutMs: callMs, signal, settings: checkSettings });
  for (const database of agreed.databases)
    if (!own.databases.some((each) => isSame(each, database)))
      await createDatabaseAs(server, database, { timeoutMs: callMs, signal, settings: checkSettings });
  for (const { database, name } of outdated)
    await run(`DROP TABLE IF EXISTS ${qualifiedName({ database, table: name })} SYNC`);
  // Tables before what reads them; views may read views.
  let remaining = [...missing.filter(hasRows), ...missing.filter((table) => !hasRows(table)), ...outdated];
  while (remaining.length > 0) {
    const failed: OwnedTable[] = [];
    let reason: unknown;
    for (const table of remaining)
      await run(table.createSql).catch((error: unknown) => {
        failed.push(table);
        reason = error;
      });
    if (failed.length === remaining.length) throw reason;
    remaining = failed;
  }
}

/** Whether a copy has the rows of another one, table by table. */
async function differenceTo(
  [peer]: readonly Member[],
  member: Member,
  tables: readonly OwnedTable[],
  signal: AbortSignal,
): Promise<string | undefined> {
  if (!peer) return undefined;
  const disabled = new AbortController();
  const answered = () => {
    if (member.isDisabled) disabled.abort();
    member.lastAnswerAt = performance.now();
    member.lastHeartbeatAt = new Date().toISOString();
  };
  const options = { signal: AbortSignal.any([signal, disabled.signal]), answered };
  for (const table of tables) {
    if (member.equalTables.has(keyOf(table))) continue;
    if (!(await isEqual(peer.server, member.server, table, options)))
      return `it lacks rows of the table ${table.name} that the others have, or has others`;
    member.equalTables.add(keyOf(table));
  }
  return undefined;
}

interface ComparisonOptions {
  readonly signal: AbortSignal;
  /** Called while the contents are read, whenever the second server has answered something else. */
  readonly answered?: () => void;
}

/** Reads the table whole on both servers, in a time that depends on its size. Throws if one of them stops answering meanwhile. */
export async function isEqual(
  one: ClickHouseServer,
  two: ClickHouseServer,
  table: Pick<OwnedTable, 'database' | 'name'>,
  { signal, answered = () => undefined }: ComparisonOptions,
): Promise<boolean> {
  const sizes = await Promise.all([one, two].map((each) => sizeOf(each, table, { timeoutMs: callMs, signal })));
  const timeoutMs = contentMsMin + Math.max(...sizes) / contentBytesPerMs;
  for (let comparison = 0; comparison < comparisonsMax; comparison++) {
    const [a, b] = await whileAnswering([one, two], { signal, answered }, (limited) =>
      Promise.all([one, two].map((each) => contentOf(each, table, { timeoutMs, signal: limited }))),
    );
    if (a === b) return true;
    await pause(comparisonPauseMs * comparison, undefined, { signal });
  }
  return false;
}

/** Ends the work if it fails on one of the servers, or if one does not answer. */
async function whileAnswering<T>(
  servers: readonly [ClickHouseServer, ClickHouseServer],
  { signal, answered }: Required<ComparisonOptions>,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ended = new AbortController();
  const limited = AbortSignal.any([signal, ended.signal]);
  const watch = async (server: ClickHouseServer, isAnswered: () => void) => {
    for (let late = 0; late < lateMax; ) {
      await pause(answersEveryMs, undefined, { ref: false, signal: limited });
      const call = { sql: 'SELECT 1', timeoutMs: answerMs, settings: checkSettings, signal: limited };
      await server.text(call).then(
        () => {
          late = 0;
          isAnswered();
        },
        () => {
          late++;
        },
      );
    }
    throw new Failure('WAREHOUSE_FAILED', 'a server of the warehouse does not respond', {}, { outcome: 'notApplied' });
  };
  const [one, two] = servers;
  try {
    return await Promise.race([work(limited), watch(one, () => undefined), watch(two, answered)]);
  } finally {
    ended.abort();
  }
}

async function hasMarker(server: ClickHouseServer, signal: AbortSignal): Promise<boolean> {
  const text = await server.text({ sql: `EXISTS TABLE ${marker}`, timeoutMs: callMs, signal, settings: checkSettings });
  return text.trim() === '1';
}

async function mark(server: ClickHouseServer, signal: AbortSignal): Promise<void> {
  for (const sql of [
    `CREATE DATABASE IF NOT EXISTS ${quoteIdentifier(internalDatabase)}`,
    `CREATE TABLE IF NOT EXISTS ${marker} (since DateTime DEFAULT now()) ENGINE = MergeTree ORDER BY since`,
  ])
    await server.text({ sql, timeoutMs: callMs, signal, settings: checkSettings });
}
