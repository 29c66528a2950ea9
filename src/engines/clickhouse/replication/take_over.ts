// Lets the replicas that count carry out what was changed on one of them. A replica that does not in time counts again when it has caught up.
import type { ClickHouseCluster, ClickHouseServer } from '../connection/server.ts';
import { qualifiedName } from '../sql/identifiers.ts';

/** For one replica; it may have to rewrite its rows. */
const secondsMax = 120;

/** Resolves when a replica has carried out what is in the log of its table. `mode`: LIGHTWEIGHT does not wait for merges and changes of columns. */
export async function synchronize(
  server: ClickHouseServer,
  table: string,
  { seconds, mode = '' }: { readonly seconds: number; readonly mode?: '' | ' LIGHTWEIGHT' },
): Promise<void> {
  // A server waits for as long as it waits for an answer.
  await server.text({
    sql: `SYSTEM SYNC REPLICA ${table}${mode}`,
    settings: { receive_timeout: seconds },
    timeoutMs: seconds * 1000,
  });
}

/** Afterwards a statement finds the new columns on whichever server it runs. `place`: of the local table. */
export async function takeOverChanges(
  cluster: ClickHouseCluster,
  place: { readonly database: string; readonly table: string },
): Promise<void> {
  if (!cluster.isReplicated) return;
  const follow = (server: ClickHouseServer) =>
    synchronize(server, qualifiedName(place), { seconds: secondsMax }).catch(() =>
      cluster.requireCatchUp([server.name]),
    );
  await Promise.all(cluster.availableOfShards().flat().map(follow));
}
