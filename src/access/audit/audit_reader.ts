// Reads the audit trail: lists, searches and verifies its events. Only audit_log.ts writes it.
import { sql } from 'kysely';
import { lowestIdAt } from '../../model/ids.ts';
import { containing } from '../../model/text_patterns.ts';
import { type Batch, bytesOf, readBatch } from '../../store/row_batches.ts';
import { type Candidate, searchRows } from '../../store/row_search.ts';
import type { Store } from '../../store/store.ts';
import {
  type AuditChain,
  type AuditEvent,
  chainSeal,
  chainSettings,
  eventDigest,
  firstDigest,
  serverIdSetting,
} from './audit_log.ts';

export interface AuditFilter {
  readonly principal?: string | undefined;
  readonly action?: string | undefined;
  readonly outcome?: string | undefined;
  readonly objectId?: string | undefined;
  readonly requestId?: string | undefined;
  /** A part of the target's URI. */
  readonly target?: string | undefined;
  /** Milliseconds since 1970; the second is not included. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

interface AuditPage {
  readonly after?: string | undefined;
  readonly limit: number;
}

/** The events of all chains, newest first; ids begin with the time. */
export async function listAudit(
  { db }: Store,
  { after: start, limit, ...filter }: AuditFilter & AuditPage,
): Promise<Batch<AuditEvent>> {
  const conditions = conditionsOf(filter);
  const contains = filter.target === undefined ? () => true : containing(filter.target);
  if (conditions.length === 0 && filter.target === undefined) return newestEvents(db, start, limit);
  const { items, hasMore, examined } = await searchRows({
    limit,
    idOf: ({ event_id: id }: AuditEvent) => id,
    next(after: Candidate | undefined, count) {
      let query = db.selectFrom('audit_events').select(['event_id as id', bytesOf(textColumns).as('bytes')]);
      const from = after?.id ?? start;
      if (from !== undefined) query = query.where('event_id', '<', from);
      // An id can have a later time than its event, not an earlier one.
      if (filter.from !== undefined) query = query.where('event_id', '>=', lowestIdAt(filter.from));
      return query.orderBy('event_id', 'desc').limit(count).execute();
    },
    async examine(batch) {
      const ids = batch.map(({ id }) => id);
      let query = db.selectFrom('audit_events').selectAll().where('event_id', 'in', ids).orderBy('event_id', 'desc');
      for (const condition of conditions) query = query.where(condition);
      return (await query.execute()).filter(({ target }) => filter.target === undefined || contains(target ?? ''));
    },
  });
  return { items, hasMore, examined: examined?.id };
}

function newestEvents(db: Db, after: string | undefined, limit: number): Promise<Batch<AuditEvent>> {
  const query = db.selectFrom('audit_events').selectAll().orderBy('event_id', 'desc');
  const rest = after === undefined ? query : query.where('event_id', '<', after);
  return readBatch(rest, { key: 'event_id', isDescending: true, texts: textColumns }, limit);
}

/** Those whose texts can be long. */
const textColumns = ['target', 'details'] as const;

function conditionsOf({ principal, action, outcome, objectId, requestId, from, to }: AuditFilter) {
  return [
    principal !== undefined && sql<boolean>`principal = ${principal}`,
    action !== undefined && sql<boolean>`action = ${action}`,
    outcome !== undefined && sql<boolean>`outcome = ${outcome}`,
    objectId !== undefined && sql<boolean>`object_id = ${objectId}`,
    requestId !== undefined && sql<boolean>`request_id = ${requestId}`,
    from !== undefined && sql<boolean>`at >= ${from}`,
    to !== undefined && sql<boolean>`at < ${to}`,
  ].filter((condition) => condition !== false);
}

export function findAudit({ db }: Store, eventId: string): Promise<AuditEvent | undefined> {
  return db.selectFrom('audit_events').selectAll().where('event_id', '=', eventId).executeTakeFirst();
}

export interface AuditFault {
  readonly serverId: string;
  readonly sequence: number;
  readonly fault: 'missing' | 'changed' | 'end';
}

export interface AuditVerdict {
  readonly eventCount: number;
  /** The first hundred. */
  readonly faults: readonly AuditFault[];
  /** The last event of each chain: stored elsewhere, it later shows whether the end of the chain was cut off. */
  readonly heads: readonly { readonly serverId: string; readonly sequence: number; readonly digest: string }[];
}

const pageRows = 5_000;
const faultsMax = 100;

/** Checks that no event is missing or changed, and that each chain begins and ends where it should. */
export async function verifyAudit({ db }: Store, key: Uint8Array): Promise<AuditVerdict> {
  // Before the chains: a server that begins its chain meanwhile is not one whose chain is missing.
  const expected = await serversWithChain(db);
  const chains = await db.selectFrom('audit_chains').select('server_id').orderBy('server_id').execute();
  const known = new Set(chains.map(({ server_id: serverId }) => serverId));
  const faults: AuditFault[] = [];
  const heads = [];
  let eventCount = 0;
  for (const serverId of known) {
    const verdict = await verifyChain(db, key, serverId);
    eventCount += verdict.eventCount;
    faults.push(...verdict.faults);
    heads.push(verdict.head);
  }
  for (const serverId of expected.difference(known)) faults.push({ serverId, sequence: 0, fault: 'end' });
  return { eventCount, faults: faults.slice(0, faultsMax), heads };
}

type Db = Store['db'];

/** By their events and by the settings that are written with the first one. */
async function serversWithChain(db: Db): Promise<Set<string>> {
  const written = await db.selectFrom('audit_events').select('server_id').distinct().execute();
  const begun = await db
    .selectFrom('settings')
    .select('value')
    .where((e) => e.or([e('key', '=', serverIdSetting), e('key', 'like', chainSettings)]))
    .execute();
  return new Set([...written.map((row) => row.server_id), ...begun.map(({ value }) => value)]);
}

interface ChainEnds extends AuditChain {
  readonly oldest: number | null;
  readonly newest: number | null;
}

/** Reads a chain with its first and last event in one query, because the server may be writing at the same time. */
function chainOf(db: Db, serverId: string): Promise<ChainEnds> {
  const end = (which: 'min' | 'max') =>
    db
      .selectFrom('audit_events')
      .select((e) => e.fn[which]<number | null>('sequence').as('sequence'))
      .where('server_id', '=', serverId);
  return db
    .selectFrom('audit_chains')
    .selectAll()
    .select([end('min').as('oldest'), end('max').as('newest')])
    .where('server_id', '=', serverId)
    .executeTakeFirstOrThrow();
}

/** Repeated if expired events were removed during the verification. */
async function verifyChain(db: Db, key: Uint8Array, serverId: string): Promise<ChainVerdict> {
  for (;;) {
    const before = await chainOf(db, serverId);
    const verdict = await verifyLines(db, key, before);
    const { removed_sequence: removed } = await chainOf(db, serverId);
    if (verdict.faults.length === 0 || removed === before.removed_sequence) return verdict;
  }
}

interface ChainVerdict {
  readonly eventCount: number;
  readonly faults: readonly AuditFault[];
  readonly head: AuditVerdict['heads'][number];
}

async function verifyLines(db: Db, key: Uint8Array, chain: Awaited<ReturnType<typeof chainOf>>): Promise<ChainVerdict> {
  const { server_id: serverId, last_sequence: last } = chain;
  const faults: AuditFault[] = [];
  let { removed_sequence: sequence, removed_digest: digest } = chain;
  let eventCount = 0;
  const report = (faultSequence: number, fault: AuditFault['fault']) => {
    if (faults.length < faultsMax) faults.push({ serverId, sequence: faultSequence, fault });
  };
  for (let more = true; more; ) {
    const rows = await db
      .selectFrom('audit_events')
      .selectAll()
      .where('server_id', '=', serverId)
      .where('sequence', '>', sequence)
      .where('sequence', '<=', Math.max(last, sequence))
      .orderBy('sequence')
      .limit(pageRows)
      .execute();
    for (const row of rows) {
      if (row.sequence !== sequence + 1) report(sequence + 1, 'missing');
      else if (eventDigest(key, digest, row) !== row.digest) report(row.sequence, 'changed');
      // The next event is compared with the stored digest, so that one fault is reported once.
      ({ sequence, digest } = row);
      eventCount++;
    }
    more = rows.length === pageRows;
  }
  const isEndIntact = sequence === last && digest === chain.last_digest && (chain.newest ?? last) <= last;
  const isStartIntact =
    (chain.oldest ?? last + 1) > chain.removed_sequence &&
    (chain.removed_sequence > 0 || chain.removed_digest === firstDigest);
  if (!isEndIntact || !isStartIntact || chainSeal(key, chain) !== chain.seal) report(sequence, 'end');
  return { eventCount, faults, head: { serverId, sequence, digest } };
}
