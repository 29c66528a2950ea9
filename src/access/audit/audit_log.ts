// The audit trail: who changed what and who was refused, with the outcome. A change is recorded in its own transaction; a refusal,
// which changes nothing, shortly after it. Events are only appended, each with a keyed digest over itself and the event before it.

import { createHmac } from 'node:crypto';
import type { Selectable, Transaction } from 'kysely';
import { dayMs } from '../../model/durations.ts';
import { newId } from '../../model/ids.ts';
import type { Actor, Guard } from '../../model/principal.ts';
import type { Observe } from '../../observe/observations.ts';
import type { Code } from '../../standard/codes.ts';
import { BatchQueue } from '../../store/batch_queue.ts';
import type { AuditChainsTable, AuditEventsTable, Schema } from '../../store/schema.ts';
import type { Store } from '../../store/store.ts';
import { afterCommit } from '../../store/transactions.ts';
import { markKey, requireKeyHeld } from '../idempotency_keys.ts';
import type { AuditJournal } from './audit_journal.ts';
import { type RefusalSample, RefusalSampler } from './refusal_sampling.ts';

export type AuditEvent = Selectable<AuditEventsTable>;
export type AuditChain = Selectable<AuditChainsTable>;

export interface AuditFacts {
  /** The code of the response; `0` is success; `begun`: an engine is about to make a change, outside of the store's transaction. */
  readonly outcome: Code | '0' | 'begun';
  readonly objectId?: string | undefined;
  /** Must not contain secrets or literals of statements. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

/** An internal request whose completion is recorded elsewhere than in the idempotency keys, in the same transaction as its change. */
export interface BoundGuard extends Guard {
  readonly recordChange: (tx: Transaction<Schema>, objectId: string | undefined) => Promise<void>;
}

const isBound = (guard: Guard): guard is BoundGuard => 'recordChange' in guard;

/** The part of the audit trail that is passed to whatever writes changes. */
export interface Trail {
  append(tx: Transaction<Schema>, actor: Actor, facts: AuditFacts): Promise<void>;
  /** Records that an engine is about to make a change. */
  begin(actor: Actor, facts: Omit<AuditFacts, 'outcome'>): Promise<void>;
  enqueue(actor: Partial<Actor>, facts: AuditFacts): void;
  markKeyDone(tx: Transaction<Schema>, guard: Guard | undefined, objectId: string | undefined): Promise<void>;
  /** In the transaction that begins a change. Throws CHANGE_IN_PROGRESS if a later attempt holds the idempotency key of the request. */
  requireKeyHeld(tx: Transaction<Schema>, guard: Guard | undefined): Promise<void>;
}

/** For tests of a single part. */
export const noTrail: Trail = {
  append: async () => {},
  begin: async () => {},
  enqueue: () => {},
  markKeyDone: async () => {},
  requireKeyHeld: async () => {},
};

export interface AuditOptions {
  readonly store: Store;
  /** Identifies this server's chain. */
  readonly serverId: string;
  readonly key: Uint8Array;
  readonly retentionDays: number;
  readonly observe: Observe;
  /** A second copy of the events, outside the store. */
  readonly journal?: Pick<AuditJournal, 'note'> | undefined;
  readonly clock?: (() => number) | undefined;
}

type PendingEvent = { readonly actor: Partial<Actor>; readonly facts: AuditFacts; readonly at: number };
type UnsignedEvent = Omit<AuditEvent, 'digest'>;

interface PendingBegin {
  readonly event: PendingEvent;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

const flushMs = 250;
const pendingMax = 5_000;
const beginGroupMax = 64;
/** The store limits the number of bound values in one INSERT. */
const rowsPerInsertMax = 500;
const targetCharactersMax = 1024;
const sweepRows = 5_000;
export const firstDigest = '0'.repeat(64);
/** The setting of a store that is not shared: the server whose chain it has. */
export const serverIdSetting = 'server_id';
/** A setting of a shared store for each server that has begun a chain, so that a chain that was deleted as a whole is missed. */
const chainSettingOf = (serverId: string) => `${serverIdSetting}/${serverId}`;
export const chainSettings = chainSettingOf('%');

/** Keyed, so that whoever can write the store but does not have the key cannot forge an event. */
export function eventDigest(key: Uint8Array, previousDigest: string, event: UnsignedEvent): string {
  const { server_id, sequence, event_id, at, action, outcome, principal_id, principal } = event;
  const { request_id, address, target, object_id, details } = event;
  const facts = [server_id, sequence, event_id, at, action, outcome, principal_id, principal];
  const text = JSON.stringify([previousDigest, ...facts, request_id, address, target, object_id, details]);
  return createHmac('sha256', key).update(text).digest('hex');
}

/** A keyed digest over the beginning and the end of a chain: events cannot be cut off, except by restoring an older store. */
export function chainSeal(key: Uint8Array, chain: Omit<AuditChain, 'seal'>): string {
  const { server_id, removed_sequence, removed_digest, last_sequence, last_digest } = chain;
  const text = JSON.stringify(['chain', server_id, removed_sequence, removed_digest, last_sequence, last_digest]);
  return createHmac('sha256', key).update(text).digest('hex');
}

export class AuditTrail implements Trail {
  readonly #options: AuditOptions;
  readonly #clock: () => number;
  readonly #refusals = new RefusalSampler();
  readonly #beginGroups = new BatchQueue<PendingBegin>(beginGroupMax, (group) => this.#begin(group));
  #pending: PendingEvent[] = [];
  #droppedCount = 0;
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
    this.#pending.push(...this.#refusals.take(this.#clock(), true).map(pendingOfSample));
    await this.flush();
  }

  /** Part of the transaction of the change: the event is written if and only if the change is committed. */
  async append(tx: Transaction<Schema>, actor: Actor, facts: AuditFacts): Promise<void> {
    actor.writing = true;
    await this.#write(tx, [{ actor, facts, at: this.#clock() }]);
    const isChange = facts.outcome === '0';
    afterCommit(tx, () => {
      actor.audited = true;
      if (isChange) actor.changed = true;
    });
    if (!isChange) return;
    await this.markKeyDone(tx, actor.guard, facts.objectId);
  }

  /** Records in the transaction of the change that a request with an idempotency key is done. */
  async markKeyDone(tx: Transaction<Schema>, guard: Guard | undefined, objectId: string | undefined): Promise<void> {
    if (!guard) return;
    if (isBound(guard)) return guard.recordChange(tx, objectId);
    await markKey(tx, guard, objectId);
  }

  async requireKeyHeld(tx: Transaction<Schema>, guard: Guard | undefined): Promise<void> {
    if (guard && !isBound(guard)) await requireKeyHeld(tx, guard);
  }

  /**
   * Durable when it returns: for changes by an engine, which takes no part in the store's transactions. The events of concurrent
   * requests are written in one transaction.
   */
  begin(actor: Actor, facts: Omit<AuditFacts, 'outcome'>): Promise<void> {
    actor.writing = true;
    actor.begunObjectId = facts.objectId;
    const event: PendingEvent = { actor, facts: { ...facts, outcome: 'begun' }, at: this.#clock() };
    return new Promise((resolve, reject) => this.#beginGroups.add({ event, resolve, reject }));
  }

  /**
   * For events that changed nothing in the store: written within a quarter of a second (in a flood of refusals, their number is written
   * within a minute), and lost if the process is killed before.
   */
  enqueue(actor: Partial<Actor>, facts: AuditFacts): void {
    const at = this.#clock();
    const { id, name, address, begunObjectId } = actor;
    const { outcome, details, objectId = begunObjectId } = facts;
    const isRefusal = outcome !== '0' && outcome !== 'begun' && details === undefined;
    if (isRefusal && !this.#refusals.shouldLog({ id, name, address, outcome }, at)) return;
    if (this.#pending.length >= pendingMax) this.#droppedCount++;
    else this.#pending.push({ actor, facts: { ...facts, objectId }, at });
  }

  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#flush());
    return this.#flushing;
  }

  /**
   * Removes events past their retention from the beginnings of all chains, because a server whose chain remains may never start again.
   * Returns how many.
   */
  async sweep(): Promise<number> {
    const chains = await this.#options.store.db.selectFrom('audit_chains').select('server_id').execute();
    let removed = 0;
    for (const { server_id: serverId } of chains) removed += await this.#sweepChain(serverId);
    return removed;
  }

  async #sweepChain(serverId: string): Promise<number> {
    const { store, retentionDays } = this.#options;
    const before = this.#clock() - retentionDays * dayMs;
    for (let removed = 0; ; ) {
      const removedRows = await store.transaction(async (tx) => {
        const oldest = await tx
          .selectFrom('audit_events')
          .select(['sequence', 'digest', 'at'])
          .where('server_id', '=', serverId)
          .orderBy('sequence')
          .limit(sweepRows)
          .execute();
        const firstRetained = oldest.findIndex(({ at }) => at >= before);
        const expired = firstRetained < 0 ? oldest : oldest.slice(0, firstRetained);
        const last = expired.at(-1);
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
        return expired.length;
      });
      removed += removedRows;
      if (removedRows < sweepRows) return removed;
    }
  }

  async #begin(group: readonly PendingBegin[]): Promise<void> {
    const events = group.map(({ event }) => event);
    try {
      await this.#options.store.transaction((tx) => this.#write(tx, events));
      for (const { event, resolve } of group) {
        event.actor.changing = true;
        resolve();
      }
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }

  async #flush(): Promise<void> {
    const at = this.#clock();
    const pending = [...this.#refusals.take(at).map(pendingOfSample), ...this.#pending];
    const dropped = this.#droppedCount;
    const events =
      dropped > 0 ? [...pending, pendingOfSample({ outcome: 'RATE_LIMITED', count: dropped, at })] : pending;
    if (events.length === 0) return;
    this.#pending = [];
    this.#droppedCount = 0;
    try {
      await this.#options.store.transaction((tx) => this.#write(tx, events));
    } catch (error) {
      this.#options.observe({ kind: 'backgroundError', what: 'audit trail', error });
      const all = [...pending, ...this.#pending];
      this.#pending = all.slice(0, pendingMax);
      this.#droppedCount += dropped + all.length - this.#pending.length;
    }
  }

  async #write(tx: Transaction<Schema>, events: readonly PendingEvent[]): Promise<void> {
    const { serverId, key } = this.#options;
    const existing = await tx
      .selectFrom('audit_chains')
      .selectAll()
      .where('server_id', '=', serverId)
      .executeTakeFirst();
    const chain = existing ?? (await this.#newChain(tx));
    let { last_sequence: sequence, last_digest: digest } = chain;
    const rows = events.map(({ actor, facts, at }) => {
      const event = eventOf(serverId, ++sequence, actor, facts, at);
      digest = eventDigest(key, digest, event);
      return { ...event, digest };
    });
    // First: of transactions that continue the chain at the same time, the database runs one again, instead of failing it for its numbers.
    await this.#seal(tx, { ...chain, last_sequence: sequence, last_digest: digest });
    for (let i = 0; i < rows.length; i += rowsPerInsertMax)
      await tx
        .insertInto('audit_events')
        .values(rows.slice(i, i + rowsPerInsertMax))
        .execute();
    const { journal } = this.#options;
    if (!journal) return;
    const lines = rows.map(({ server_id, sequence: number, action, target }) => ({
      serverId: server_id,
      sequence: number,
      action,
      target,
    }));
    afterCommit(tx, () => journal.note(lines));
  }

  async #newChain(tx: Transaction<Schema>): Promise<Omit<AuditChain, 'seal'>> {
    const { store, serverId } = this.#options;
    if (store.isShared)
      await tx
        .insertInto('settings')
        .values({ key: chainSettingOf(serverId), value: serverId })
        .onConflict((conflict) => conflict.column('key').doNothing())
        .execute();
    return {
      server_id: serverId,
      removed_sequence: 0,
      removed_digest: firstDigest,
      last_sequence: 0,
      last_digest: firstDigest,
    };
  }

  async #seal(tx: Transaction<Schema>, chain: Omit<AuditChain, 'seal'>): Promise<void> {
    const row = { ...chain, seal: chainSeal(this.#options.key, chain) };
    await tx
      .insertInto('audit_chains')
      .values(row)
      .onConflict((conflict) => conflict.column('server_id').doUpdateSet(row))
      .execute();
  }
}

function eventOf(
  serverId: string,
  sequence: number,
  actor: Partial<Actor>,
  facts: AuditFacts,
  at: number,
): UnsignedEvent {
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

/** One event that represents a number of refusals. */
function pendingOfSample({ id, name, address, outcome, count, at }: RefusalSample): PendingEvent {
  const actor = { action: 'refusals', ...(id === undefined ? { address } : { id, name }) };
  return { actor: actor as Partial<Actor>, facts: { outcome: outcome as Code, details: { count } }, at };
}
