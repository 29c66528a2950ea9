// Removes the staging tables of work that has ended, on each server by itself: one that is away loses its tables when it is back. What a process of Tabularium
// that has ended leaves is removed by its age.
import type { Cluster } from '../cluster/cluster.ts';
import type { Member } from '../cluster/member.ts';
import type { ClickHouseServer, ServerCall } from '../connection/server.ts';
import { internalDatabase } from '../names.ts';
import { qualifiedName, quoteLiteral } from '../sql/identifiers.ts';
import { dropClaims } from '../steps/claim.ts';
import { distributedSuffix, stagingPrefix } from './staging.ts';

/** Of loads that ended without removing their tables. */
const abandonedHours = 24;
const statementTimeoutMs = 600_000;
/** For each server that is away. It gets no tables then: those that it has are among the first that end. */
const leftMax = 10_000;

export class EndedStaging {
  readonly #cluster: Pick<Cluster, 'members'>;
  /** Names that are to be removed, by the server that could not do it. */
  readonly #left = new Map<string, Set<string>>();

  constructor(cluster: Pick<Cluster, 'members'>) {
    this.#cluster = cluster;
  }

  /** Also of work of which only some tables exist. A server that does not do it now is asked again. */
  async drop(staging: string): Promise<void> {
    const dropOn = async (member: Member) => {
      try {
        if (!canDrop(member)) throw new Error('the server is not available');
        for (const name of tablesOf(staging)) await dropTable(member.counted, name);
      } catch {
        const left = this.#left.get(member.name) ?? new Set();
        if (left.size < leftMax) this.#left.set(member.name, left.add(staging));
      }
    };
    await Promise.all(this.#members().map(dropOn));
  }

  /** Removes all tables whose names begin so, on the servers that are available. */
  async dropAll(prefix: string, call: Pick<ServerCall, 'timeoutMs' | 'signal'>): Promise<void> {
    const dropOn = async ({ counted: server }: Member) => {
      const names = await stagingTables(server, `AND startsWith(name, ${quoteLiteral(prefix)})`, call);
      for (const name of names) await dropTable(server, name, call);
    };
    await Promise.all(this.#members().filter(canDrop).map(dropOn));
  }

  /** Removes what servers have left that are back. */
  async dropLeft(): Promise<void> {
    const members = this.#members();
    for (const name of this.#left.keys()) if (!members.some((member) => member.name === name)) this.#left.delete(name);
    for (const member of members.filter(canDrop)) {
      const left = this.#left.get(member.name);
      if (!left) continue;
      const present = new Set(await stagingTables(member.counted, ''));
      for (const staging of left) {
        for (const name of tablesOf(staging)) if (present.has(name)) await dropTable(member.counted, name);
        left.delete(staging);
      }
      if (left.size === 0) this.#left.delete(member.name);
    }
  }

  /** Removes what loads and claims left behind that ended without it a day ago or earlier. `kept`: the names of loads that are to be published, or may be. */
  async dropAbandoned(kept: ReadonlySet<string>): Promise<void> {
    const isOld = `AND metadata_modification_time < now() - INTERVAL ${abandonedHours} HOUR`;
    const dropOn = async ({ counted: server }: Member) => {
      for (const name of await stagingTables(server, isOld))
        if (!kept.has(name.replace(new RegExp(`${distributedSuffix}$`), ''))) await dropTable(server, name);
      await dropClaims(server, abandonedHours * 3600 * 1000);
    };
    await Promise.allSettled(this.#members().filter(canDrop).map(dropOn));
  }

  #members(): readonly Member[] {
    return this.#cluster.members().filter(({ isDecommissioned }) => !isDecommissioned);
  }
}

const canDrop = ({ isDisabled, isAvailable, takesBegunWork }: Member): boolean =>
  isAvailable || (!isDisabled && takesBegunWork);

/** The one that reads the other first. */
const tablesOf = (staging: string): readonly string[] => [`${staging}${distributedSuffix}`, staging];

async function stagingTables(
  server: ClickHouseServer,
  condition: string,
  call: Pick<ServerCall, 'timeoutMs' | 'signal'> = { timeoutMs: statementTimeoutMs },
): Promise<readonly string[]> {
  const sql = `SELECT name FROM system.tables WHERE database = ${quoteLiteral(internalDatabase)}
    AND startsWith(name, ${quoteLiteral(stagingPrefix)}) ${condition}`;
  return (await server.rows<{ name: string }>({ ...call, sql })).map(({ name }) => name);
}

async function dropTable(
  server: ClickHouseServer,
  table: string,
  call: Pick<ServerCall, 'timeoutMs' | 'signal'> = { timeoutMs: statementTimeoutMs },
): Promise<void> {
  const name = qualifiedName({ database: internalDatabase, table });
  await server.text({ ...call, sql: `DROP TABLE IF EXISTS ${name} SYNC` });
}
