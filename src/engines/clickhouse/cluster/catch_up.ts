// Whether a server has everything that it must have before it takes statements.
import type { ReplicaNotices } from '../../cluster/replica_notices.ts';
import type { DefinedObject, TableName } from '../../port/refs.ts';
import { parsedDatabase, parsedTable } from '../names.ts';
import type { OwnsDatabase } from '../owned_databases.ts';
import type { StoredName } from '../replication/reconcile.ts';
import { cutOff, followNames, takeBack } from '../replication/return_of_server.ts';
import { endClaim } from '../steps/claim.ts';
import type { RecordExchanges } from '../steps/record_exchanges.ts';
import type { Lack, Member } from './member.ts';
import { catchUpWithoutReplication } from './unreplicated_catch_up.ts';

/** For one attempt to catch up, without the comparison of contents. */
const attemptMs = 30_000;

export interface CatchUpOptions {
  /** All registered servers. */
  readonly members: () => readonly Member[];
  readonly owns: () => Promise<OwnsDatabase>;
  /** Completes the writes that were interrupted. @returns their number. */
  readonly completeLeft: (signal: AbortSignal) => Promise<number>;
  /** See `RecordExchanges.exchange`. */
  readonly exchangeRecords: RecordExchanges['exchange'];
  readonly definedObject: (name: TableName) => Promise<DefinedObject | undefined>;
  /** As the servers that were asked say. */
  readonly isReplicated: () => boolean;
  readonly notices: ReplicaNotices | undefined;
}

export class CatchUp {
  readonly #options: CatchUpOptions;

  constructor(options: CatchUpOptions) {
    this.#options = options;
  }

  /** @returns what the server lacks; undefined: it is complete. Throws what the server answers, or that it does not answer. */
  async run(member: Member, signal: AbortSignal): Promise<Lack | undefined> {
    // What a decommission has sent that was slow must not arrive when the server has rows that no other one has.
    await endClaim(member.server, member.dropKey);
    const lack = await this.#lackOf(member, signal);
    if (lack !== undefined) return lack;
    const others = this.#options.members().filter((other) => other !== member && mayHaveRecords(other));
    await this.#options.exchangeRecords(member.server, others, signal);
    return undefined;
  }

  async #lackOf(member: Member, signal: AbortSignal): Promise<Lack | undefined> {
    const peers = this.#peersOf(member);
    const limited = () => AbortSignal.any([signal, AbortSignal.timeout(attemptMs)]);
    const owns = await this.#options.owns();
    if (this.#options.isReplicated()) {
      const servers = peers.map(({ server }) => server);
      // Before the check: changes that are acknowledged from now on are on this replica, or exclude it again.
      member.exclusion = undefined;
      await this.#options.notices?.publishReading(member.name);
      const options = { peers: servers, owns, isDefined: this.#isDefined, signal: limited() };
      const message = await takeBack(member.server, options);
      return message === undefined ? undefined : { message, isBegunWork: false };
    }
    const { completeLeft, definedObject } = this.#options;
    return catchUpWithoutReplication(member, { peers, owns, completeLeft, definedObject, limited, signal });
  }

  /** Of a disabled server: it gets no tables that it lacks. */
  async followNames(member: Member): Promise<void> {
    if (!this.#options.isReplicated()) return;
    const peers = this.#peersOf(member).map(({ server }) => server);
    const owns = await this.#options.owns();
    await followNames(member.server, { peers, owns, isDefined: this.#isDefined });
  }

  /** Of a server that was complete and was not restarted since. */
  async stillComplete(member: Member): Promise<string | undefined> {
    if (!this.#options.isReplicated()) return undefined;
    return cutOff(
      member.server,
      this.#peersOf(member).map(({ server }) => server),
    );
  }

  readonly #isDefined = async ({ database, name }: StoredName): Promise<boolean> => {
    const parsed = parsedDatabase(database);
    if (!parsed) return false;
    return (await this.#options.definedObject({ ...parsed, table: parsedTable(name) })) !== undefined;
  };

  #peersOf(member: Member): Member[] {
    return this.#options.members().filter((other) => other !== member && other.isAvailable);
  }
}

/** Also one that is disabled, or that is catching up at the same time. */
const mayHaveRecords = ({ isAvailable, isDecommissioned, lastHeartbeatAt, answers }: Member): boolean =>
  isAvailable || (!isDecommissioned && lastHeartbeatAt !== null && answers);
