// The audit trail as it is read: shown, searched, verified. Written by audit.ts alone.
import type { Store } from '../store/store.ts';
import { type AuditEvent, digestOf, firstDigest } from './audit.ts';

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

/** In the order in which they were written. */
export async function listAudit(
  { db }: Store,
  filter: AuditFilter & { readonly after?: string | undefined; readonly limit: number },
): Promise<AuditEvent[]> {
  const { after, limit, principal, action, outcome, objectId, requestId, target, from, to } = filter;
  let query = db.selectFrom('audit_events').selectAll().orderBy('event_id').limit(limit);
  if (after !== undefined) query = query.where('event_id', '>', after);
  if (principal !== undefined) query = query.where('principal', '=', principal);
  if (action !== undefined) query = query.where('action', '=', action);
  if (outcome !== undefined) query = query.where('outcome', '=', outcome);
  if (objectId !== undefined) query = query.where('object_id', '=', objectId);
  if (requestId !== undefined) query = query.where('request_id', '=', requestId);
  if (target !== undefined) query = query.where('target', 'like', `%${target.replace(/[\\%_]/g, '')}%`);
  if (from !== undefined) query = query.where('at', '>=', from);
  if (to !== undefined) query = query.where('at', '<', to);
  return query.execute();
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
  /** Where each chain ends: kept elsewhere, it shows later whether the end was cut off. */
  readonly heads: readonly { readonly serverId: string; readonly sequence: number; readonly digest: string }[];
}

const pageRows = 5_000;
const faultsMax = 100;

/** Goes over every line: is it there, is it as it was written, and does the chain end where it should. */
export async function verifyAudit({ db }: Store, key: Uint8Array): Promise<AuditVerdict> {
  const faults: AuditFault[] = [];
  const heads: { serverId: string; sequence: number; digest: string }[] = [];
  let eventCount = 0;
  for (const chain of await db.selectFrom('audit_chains').selectAll().orderBy('server_id').execute()) {
    const { server_id: serverId } = chain;
    const tell = (sequence: number, fault: AuditFault['fault']) => {
      if (faults.length < faultsMax) faults.push({ serverId, sequence, fault });
    };
    let digest = chain.removed_sequence === 0 ? firstDigest : chain.removed_digest;
    let sequence = chain.removed_sequence;
    for (;;) {
      const rows = await db
        .selectFrom('audit_events')
        .selectAll()
        .where('server_id', '=', serverId)
        .where('sequence', '>', sequence)
        .orderBy('sequence')
        .limit(pageRows)
        .execute();
      for (const row of rows) {
        if (row.sequence !== sequence + 1) tell(sequence + 1, 'missing');
        else if (digestOf(key, digest, row) !== row.digest) tell(row.sequence, 'changed');
        // What follows is compared with what is written here: one fault is told once.
        ({ sequence, digest } = row);
        eventCount++;
      }
      if (rows.length < pageRows) break;
    }
    if (sequence !== chain.last_sequence || digest !== chain.last_digest) tell(sequence, 'end');
    heads.push({ serverId, sequence, digest });
  }
  const known = heads.map(({ serverId }) => serverId);
  const stray = await db.selectFrom('audit_events').select('server_id').distinct().execute();
  for (const { server_id: serverId } of stray)
    if (!known.includes(serverId)) faults.push({ serverId, sequence: 0, fault: 'end' });
  return { eventCount, faults, heads };
}
