// Lets the replicas that count carry out what was changed on one of them. A replica that does not in time counts again when it has caught up.
import type { ClickHouseCluster, ClickHouseServer } from '../connection/server.ts';
import { qualifiedName } from '../sql/identifiers.ts';
import { replicationFeatures } from './replication_features.ts';
import { isAbsent } from './server_errors.ts';

/** For one replica; it may have to rewrite its rows. */
const secondsMax = 120;

/** The names of a local table, or of a staging table. */
interface Place {
  readonly database: string;
  readonly table: string;
}

/** Resolves when a replica has carried out what is in the log of its table. */
async function synchronize(server: ClickHouseServer, place: Place, mode: '' | ' LIGHTWEIGHT', seconds: number) {
  // A server waits for as long as it waits for an answer.
  await server.text({
    sql: `SYSTEM SYNC REPLICA ${qualifiedName(place)}${mode}`,
    settings: { receive_timeout: seconds },
    timeoutMs: seconds * 1000,
  });
}

/** Resolves when a replica has the rows that were stored on another one, without waiting for merges, or if the table was dropped meanwhile. */
export async function takeRows(server: ClickHouseServer, place: Place, seconds: number): Promise<void> {
  const mode = replicationFeatures(server.version).lightweightSync ? ' LIGHTWEIGHT' : '';
  try {
    await synchronize(server, place, mode, seconds);
  } catch (error) {
    if (!isAbsent(error)) throw error;
  }
}

/** Afterwards a statement finds the new columns on whichever server it runs. `place`: of the local table. */
export async function takeOverChanges(cluster: ClickHouseCluster, place: Place): Promise<void> {
  if (cluster.isReplicated) await cluster.takeOver((server) => synchronize(server, place, '', secondsMax));
}
