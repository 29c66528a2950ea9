// Disabled servers of a cluster that replicates with several shards. They take no statements, but the definition of the cluster has them: each other
// server picks itself to which replica of another shard it gives the rows of an insert, one that counts if it reaches it, and knows its table only
// by the name. So they follow the names of tables.
import { Failure } from '../../../standard/failure.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import { isAbsent } from '../replication/server_errors.ts';
import type { Member } from './member.ts';

export class DisabledReplicas {
  readonly #members: () => readonly Member[];

  /** @param members those to which others may give rows although they are disabled. */
  constructor(members: () => readonly Member[]) {
    this.#members = members;
  }

  /** Throws NOT_ENOUGH_BACKENDS if one may have another table by a name that is to be given. */
  requireFollowed(): void {
    const behind = this.#members().filter((member) => member.missesNames || !member.answers);
    if (behind.length > 0) throw this.#doesNotFollow(behind);
  }

  /** Takes names from tables, or with `gives`, gives them: then each must follow. One that cannot is brought up to date when it answers. */
  async follow(
    work: (server: ClickHouseServer) => Promise<unknown>,
    { gives }: { readonly gives: boolean },
  ): Promise<void> {
    const followed = this.#members().map(async (member) => {
      try {
        if (!member.answers) throw new Error('the disabled server does not respond');
        await work(member.server);
      } catch (error) {
        // It has no table by this name that could be given rows.
        if (isAbsent(error)) return;
        member.missesNames = true;
        if (gives) throw this.#doesNotFollow([member], error);
      }
    });
    const failed = (await Promise.allSettled(followed)).find((result) => result.status === 'rejected');
    if (failed) throw failed.reason;
  }

  #doesNotFollow(behind: readonly Member[], cause?: unknown): Failure {
    const needed = this.#members().length;
    return new Failure(
      'NOT_ENOUGH_BACKENDS',
      `the disabled backend ${JSON.stringify(behind[0]?.name)} does not follow changes of names, and other backends give rows to its tables`,
      { needed, available: needed - behind.length },
      { cause, outcome: 'notApplied' },
    );
  }
}
