// Lets the replicas that count carry out what was changed on one of them. A replica that does not in time counts again when it has caught up.
import type { ClickHouseCluster } from '../connection/server.ts';
import { qualifiedName } from '../sql/identifiers.ts';

/** For one replica; it may have to rewrite its rows. */
const secondsMax = 120;

/** Afterwards a statement finds the new columns on whichever server it runs. `place`: of the local table. */
export async function takeOverChanges(
  cluster: ClickHouseCluster,
  place: { readonly database: string; readonly table: string },
): Promise<void> {
  if (!cluster.isReplicated) return;
  await Promise.all(
    cluster
      .availableOfShards()
      .flat()
      .map((server) =>
        server
          .text({
            sql: `SYSTEM SYNC REPLICA ${qualifiedName(place)}`,
            settings: { receive_timeout: secondsMax },
            timeoutMs: secondsMax * 1000,
          })
          .catch(() => cluster.requireCatchUp([server.name])),
      ),
  );
}
