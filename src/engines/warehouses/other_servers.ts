// What a server reports to the others on its store about its warehouses, and how a warehouse on another server looks from here. The data of
// such a warehouse is in the data directory of that server: here no engine is opened for it.
import { Failure } from '../../standard/failure.ts';
import type { ReplicaNotices } from '../cluster/replica_notices.ts';
import type { DamagedCatalog } from '../port/catalog_storage.ts';
import type { WarehouseCondition } from './warehouse_condition.ts';

export interface WarehouseReport {
  readonly condition: WarehouseCondition;
  readonly damaged: readonly DamagedCatalog[];
}

/** By the id of the warehouse. */
export type WarehouseReports = Readonly<Record<string, WarehouseReport>>;

export interface OtherServers {
  /** This server. */
  readonly serverId: string;
  /** The last report of another server, as JSON; undefined if it is down. */
  readonly reportOf: (serverId: string) => string | undefined;
  /** How this one notifies them of the replicas of a warehouse. */
  readonly noticesOf: (warehouseId: string) => ReplicaNotices;
}

/** Thrown instead of opening an engine. Requests are forwarded before that (http/forwarding/). */
export function onAnotherServer(warehouse: string, serverId: string): Failure {
  const message = `the warehouse "${warehouse}" is on the server ${serverId}, which does not respond`;
  return new Failure('WAREHOUSE_ON_ANOTHER_SERVER', message, { serverId });
}

export function reportIn(reports: string | undefined, warehouseId: string): WarehouseReport | undefined {
  return reports === undefined ? undefined : (JSON.parse(reports) as WarehouseReports)[warehouseId];
}

/** The condition of a warehouse whose server is down, or has not reported it yet. */
export function conditionWithoutServer(serverId: string, isDown: boolean): WarehouseCondition {
  const message = isDown ? `the server ${serverId} is down` : `the server ${serverId} has not reported it yet`;
  return {
    state: isDown ? 'failed' : 'suspended',
    health: { status: isDown ? 'unavailable' : 'healthy', message },
    runningQueries: 0,
    queuedQueries: 0,
    availableBackendCount: 0,
    backends: [],
  };
}

/** The catalogs whose damage differs between two reports of a server. */
export function catalogsWithChangedDamage(report: string, previous: string | undefined): string[] {
  const damageIn = (text: string | undefined) => {
    const reports = Object.values(text === undefined ? {} : (JSON.parse(text) as WarehouseReports));
    return new Map(reports.flatMap(({ damaged }) => damaged.map((catalog) => [catalog.id, JSON.stringify(catalog)])));
  };
  const [now, before] = [damageIn(report), damageIn(previous)];
  const ids = new Set([...now.keys(), ...before.keys()]);
  return [...ids].filter((id) => now.get(id) !== before.get(id));
}
