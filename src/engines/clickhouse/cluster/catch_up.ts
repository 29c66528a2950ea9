// Whether a server has everything that it must have before it takes statements.
import type { Member } from './member.ts';
import type { OwnsDatabase } from './owned_tables.ts';
import { catchUpWithoutReplication } from './unreplicated_catch_up.ts';

export interface CatchUpOptions {
  /** All registered servers. */
  readonly members: () => readonly Member[];
  readonly owns: () => Promise<OwnsDatabase>;
}

export class CatchUp {
  readonly #options: CatchUpOptions;

  constructor(options: CatchUpOptions) {
    this.#options = options;
  }

  /** @returns what the server lacks; undefined: it is complete. Throws what the server answers, or that it does not answer. */
  async run(member: Member, signal: AbortSignal): Promise<string | undefined> {
    const peers = this.#options.members().filter((other) => other !== member && other.isAvailable);
    const owns = await this.#options.owns();
    return catchUpWithoutReplication(member, { peers, owns, signal });
  }

  /** Of a server that was complete and was not restarted since. */
  async stillComplete(_member: Member, _signal: AbortSignal): Promise<string | undefined> {
    return undefined;
  }
}
