// Counts the interrupted changes of each warehouse that wait for recovery or for an operator, for the metrics and the warehouse record.
import type { Metrics } from '../observe/metrics.ts';
import type { Catalog } from './catalog.ts';
import type { OpenIntent } from './changes/intent_recovery.ts';

export interface OpenChanges {
  /** All open changes, including blocked ones. */
  readonly open: number;
  readonly blocked: readonly BlockedIntent[];
}

/** `reason`: why recovery has set it aside. */
export type BlockedIntent = OpenIntent & { readonly reason: string };

export async function openChanges(catalog: Pick<Catalog, 'openIntents'>, warehouse: string): Promise<OpenChanges> {
  return openChangesOf(await catalog.openIntents(), warehouse);
}

/** Counted at each scrape. */
export function measureOpenIntents(metrics: Metrics, catalog: Pick<Catalog, 'openIntents'>): void {
  const help = 'Interrupted changes of a warehouse that have not ended; blocked ones wait for an operator.';
  metrics.gauge('tabularium_open_intents', help, async () => {
    const all = await catalog.openIntents();
    return [...new Set(all.map(({ warehouse }) => warehouse))].flatMap((warehouse) => {
      const { open, blocked } = openChangesOf(all, warehouse);
      return [
        { labels: { warehouse, state: 'open' }, value: open - blocked.length },
        { labels: { warehouse, state: 'blocked' }, value: blocked.length },
      ];
    });
  });
}

const isBlocked = (change: OpenIntent): change is BlockedIntent => change.reason !== null;

function openChangesOf(all: readonly OpenIntent[], warehouse: string): OpenChanges {
  const own = all.filter((change) => change.warehouse === warehouse);
  return { open: own.length, blocked: own.filter(isBlocked) };
}
