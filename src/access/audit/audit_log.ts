// The audit trail: who changed what and who was refused, with the outcome. A change is recorded in its own transaction; a refusal,
// which changes nothing, a moment later. Lines are only added, each with a keyed digest over itself and the line before.

import { createHmac } from 'node:crypto';
import type { Selectable, Transaction } from 'kysely';
import { newId } from '../../model/ids.ts';
import type { Actor, Guard } from '../../model/principal.ts';
import type { Observe } from '../../observe/observations.ts';
import type { Code } from '../../standard/codes.ts';
import { Groups } from '../../store/groups.ts';
import type { AuditChainsTable, AuditEventsTable, Schema } from '../../store/schema.ts';
import type { Store } from '../../store/store.ts';
import { markKey, requireKeyHeld } from '../idempotency_keys.ts';
import type { AuditJournal } from './audit_journal.ts';
import { type RefusalSample, RefusalSampler } from './refusal_sampling.ts';

export type AuditEvent = Selectable<AuditEventsTable>;
export type AuditChain = Selectable<AuditChainsTable>;

export interface AuditFacts {
  /** The code of the answer; `0` is success; `begun`: what an engine is about to do, outside of the store's transaction. */
  readonly outcome: Code | '0' | 'begun';
  readonly objectId?: string | undefined;
  /** No secret and no literal of a statement. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

/** A request of the service's own that is noted elsewhere than among the keys of callers, in the same transaction as its change. */
export interface BoundGuard extends Guard {
  readonly recordChange: (tx: Transaction<Schema>, objectId: string | undefined) => Promise<void>;
}

const isBound = (guard: Guard): guard is BoundGuard => 'also' in guard;

/** What writes changes is handed this much of the trail. */
export interface Trail {
  append(tx: Transaction<Schema>, actor: Actor, facts: AuditFacts): Promise<void>;
  /** What an engine is about to do. */
  begin(actor: Actor, facts: Omit<AuditFacts, 'outcome'>): Promise<void>;
  enqueue(actor: Partial<Actor>, facts: AuditFacts): void;
  markKeyDone(tx: Transaction<Schema>, guard: Guard | undefined, objectId: string | undefined): Promise<void>;
  /** In the transaction that begins a change. Throws CHANGE_IN_PROGRESS where a later attempt holds the key of the request. */
  requireKeyHeld(tx: Transaction<Schema>, guard: Guard | undefined): Promise<void>;
}

/** For parts that are tested alone. */
export const noTrail: Trail = {
  append: async () => {},
  begin: async () => {},
  enqueue: () => {},
  markKeyDone: async () => {},
  requireKeyHeld: async () => {},
};

export interface AuditOptions {
  readonly store: Store;
  /** Of this server's chain. */
  readonly serverId: string;
  readonly key: Uint8Array;
  readonly retentionDays: number;
  readonly observe: Observe;
  /** A second copy of the lines, outside the store. */
  readonly journal?: Pick<AuditJournal, 'note'> | undefined;
  readonly clock?: (() => number) | undefined;
}

type Noted = { readonly actor: Partial<Actor>; readonly facts: AuditFacts; readonly at: number };
type Line = Omit<AuditEvent, 'digest'>;

interface Beginning {
  readonly noted: Noted;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

const flushMs = 250;
const notedMax = 5_000;
const begunTogetherMax = 64;
/** Of one INSERT: a store binds only so many values. */
const rowsPerInsertMax = 500;
const targetCharactersMax = 1024;
const sweepRows = 5_000;
const dayMs = 86_400_000;
export const firstDigest = '0'.repeat(64);

/** Keyed, so that who can write the store but has not the key cannot make a line that fits. */
export function eventDigest(key: Uint8Array, before: string, line: Line): string {
  const { server_id, sequence, event_id, at, action, outcome, principal_id, principal } = line;
  const { request_id, address, target, object_id, details } = line;
  const facts = [server_id, sequence, event_id, at, action, outcome, principal_id, principal];
  const text = JSON.stringify([before, ...facts, request_id, address, target, object_id, details]);
  return createHmac('sha256', key).update(text).digest('hex');
}

/** Over where a chain begins and ends, so that it cannot be cut unless an older store is put in its place. */
export function chainSeal(key: Uint8Array, chain: Omit<AuditChain, 'seal'>): string {
  const { server_id, removed_sequence, removed_digest, last_sequence, last_digest } = chain;
  const text = JSON.stringify(['chain', server_id, removed_sequence, removed_digest, last_sequence, last_digest]);
  return createHmac('sha256', key).update(text).digest('hex');
}

export class AuditTrail implements Trail {
  readonly #options: AuditOptions;
  readonly #clock: () => number;
  readonly #refusals = new RefusalSampler();
  readonly #beginning = new Groups<Beginning>(begunTogetherMax, (group) => this.#begin(group));
  #noted: Noted[] = [];
  #lost = 0;
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> = Promise.resolve();

  constructor(options: AuditOptions) {
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
  }

  start(): void {
    this.#timer = setInterval(() => void this.flush(), flushMs);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#noted.push(...this.#refusals.take(this.#clock(), true).map(notedOf));
    await this.flush();
  }

  /** Part of the change: the line is written if and only if the change is made. */
  async append(tx: Transaction<Schema>, actor: Actor, facts: AuditFacts): Promise<void> {
    actor.writing = true;
    await this.#write(tx, [{ actor, facts, at: this.#clock() }]);
    actor.audited = true;
    if (facts.outcome !== '0') return;
    actor.changed = true;
    await this.markKeyDone(tx, actor.guard, facts.objectId);
  }

  /** That the change of a keyed request was made is noted with the change. */
  async markKeyDone(tx: Transaction<Schema>, guard: Guard | undefined, objectId: string | undefined): Promise<void> {
    if (!guard) return;
    if (isBound(guard)) return guard.recordChange(tx, objectId);
    await markKey(tx, guard, objectId);
  }

  async requireKeyHeld(tx: Transaction<Schema>, guard: Guard | undefined): Promise<void> {
    if (guard && !isBound(guard)) await requireKeyHeld(tx, guard);
  }

  /**
   * Durable when it returns: for what an engine is about to do, which has no part in the store's transactions. Lines of many
   * requests that come at once are one transaction.
   */
  begin(actor: Actor, facts: Omit<AuditFacts, 'outcome'>): Promise<void> {
    actor.writing = true;
    const noted: Noted = { actor, facts: { ...facts, outcome: 'begun' }, at: this.#clock() };
    return new Promise((resolve, reject) => this.#beginning.add({ noted, resolve, reject }));
  }

  /**
   * What changed nothing in the store: written within a quarter of a second, of a flood the number within a minute; lost if the process
   * is killed before.
   */
  enqueue(actor: Partial<Actor>, facts: AuditFacts): void {
    const at = this.#clock();
    const { id, name, address } = actor;
    const { outcome, details } = facts;
    const isRefusal = outcome !== '0' && outcome !== 'begun' && details === undefined;
    if (isRefusal && !this.#refusals.shouldLog({ id, name, address, outcome }, at)) return;
    if (this.#noted.length >= notedMax) this.#lost++;
    else this.#noted.push({ actor, facts, at });
  }

  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#flush());
    return this.#flushing;
  }

  /** Removes what is past its time, from the beginning of the chain on. Returns how many. */
  async sweep(): Promise<number> {
    const { store, serverId, retentionDays } = this.#options;
    const before = this.#clock() - retentionDays * dayMs;
    for (let removed = 0; ; ) {
      const some = await store.transaction(async (tx) => {
        const old = await tx
          .selectFrom('audit_events')
          .select(['sequence', 'digest', 'at'])
          .where('server_id', '=', serverId)
          .orderBy('sequence')
          .limit(sweepRows)
          .execute();
        const kept = old.findIndex(({ at }) => at >= before);
        const gone = kept < 0 ? old : old.slice(0, kept);
        const last = gone.at(-1);
        if (!last) return 0;
        await tx
          .deleteFrom('audit_events')
          .where('server_id', '=', serverId)
          .where('sequence', '<=', last.sequence)
          .execute();
        const chain = await tx
          .selectFrom('audit_chains')
          .selectAll()
          .where('server_id', '=', serverId)
          .executeTakeFirstOrThrow();
        await this.#seal(tx, { ...chain, removed_sequence: last.sequence, removed_digest: last.digest });
        return gone.length;
      });
      removed += some;
      if (some < sweepRows) return removed;
    }
  }

  async #begin(group: readonly Beginning[]): Promise<void> {
    const noted = group.map((one) => one.noted);
    try {
      await this.#options.store.transaction((tx) => this.#write(tx, noted));
      for (const { resolve } of group) resolve();
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }

  async #flush(): Promise<void> {
    const at = this.#clock();
    const noted = [...this.#refusals.take(at).map(notedOf), ...this.#noted];
    const lost = this.#lost;
    const lines = lost > 0 ? [...noted, notedOf({ outcome: 'RATE_LIMITED', count: lost, at })] : noted;
    if (lines.length === 0) return;
    this.#noted = [];
    this.#lost = 0;
    try {
      await this.#options.store.transaction((tx) => this.#write(tx, lines));
    } catch (error) {
      this.#options.observe({ kind: 'backgroundError', what: 'audit trail', error });
      const all = [...noted, ...this.#noted];
      this.#noted = all.slice(0, notedMax);
      this.#lost += lost + all.length - this.#noted.length;
    }
  }

  async #write(tx: Transaction<Schema>, noted: readonly Noted[]): Promise<void> {
    const { serverId, key } = this.#options;
    const chain = (await tx
      .selectFrom('audit_chains')
      .selectAll()
      .where('server_id', '=', serverId)
      .executeTakeFirst()) ?? {
      server_id: serverId,
      removed_sequence: 0,
      removed_digest: firstDigest,
      last_sequence: 0,
      last_digest: firstDigest,
    };
    let { last_sequence: sequence, last_digest: digest } = chain;
    const rows = noted.map(({ actor, facts, at }) => {
      const line = lineOf(serverId, ++sequence, actor, facts, at);
      digest = eventDigest(key, digest, line);
      return { ...line, digest };
    });
    for (let i = 0; i < rows.length; i += rowsPerInsertMax)
      await tx
        .insertInto('audit_events')
        .values(rows.slice(i, i + rowsPerInsertMax))
        .execute();
    await this.#seal(tx, { ...chain, last_sequence: sequence, last_digest: digest });
    this.#options.journal?.note(
      rows.map(({ server_id, sequence: number, action, target }) => ({
        serverId: server_id,
        sequence: number,
        action,
        target,
      })),
    );
  }

  async #seal(tx: Transaction<Schema>, chain: Omit<AuditChain, 'seal'>): Promise<void> {
    const row = { ...chain, seal: chainSeal(this.#options.key, chain) };
    await tx
      .insertInto('audit_chains')
      .values(row)
      .onConflict((of) => of.column('server_id').doUpdateSet(row))
      .execute();
  }
}

function lineOf(serverId: string, sequence: number, actor: Partial<Actor>, facts: AuditFacts, at: number): Line {
  const { details } = facts;
  return {
    server_id: serverId,
    sequence,
    event_id: newId(at),
    at,
    action: actor.action ?? 'system',
    outcome: facts.outcome,
    principal_id: actor.id ?? null,
    principal: actor.name ?? null,
    request_id: actor.requestId ?? null,
    address: actor.address ?? null,
    target: actor.target?.slice(0, targetCharactersMax) ?? null,
    object_id: facts.objectId ?? null,
    details: details === undefined ? null : JSON.stringify(details),
  };
}

/** A number of refusals in the place of their lines. */
function notedOf({ id, name, address, outcome, count, at }: RefusalSample): Noted {
  const actor = { action: 'refusals', ...(id === undefined ? { address } : { id, name }) };
  return { actor: actor as Partial<Actor>, facts: { outcome: outcome as Code, details: { count } }, at };
}
