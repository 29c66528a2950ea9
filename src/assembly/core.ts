// The parts of a server that know what exists and who may do what: warehouses, tasks, catalog, access.
import { randomUUID } from 'node:crypto';
import { assembleAccess, assembleAudit } from '../access/assemble_access.ts';
import { serverIdSetting } from '../access/audit/audit_log.ts';
import { assembleLimits } from '../access/limits/assemble_limits.ts';
import { Quotas } from '../access/limits/quotas.ts';
import { assembleWarehouses } from '../catalog/assemble_warehouses.ts';
import { Catalog } from '../catalog/catalog.ts';
import { CatalogReader, objectSource } from '../catalog/catalog_reader.ts';
import { RecordCache } from '../catalog/record_cache.ts';
import { warehouseExists } from '../catalog/warehouse_objects.ts';
import type { ReplicaFinding, ReplicaNotices } from '../engines/cluster/replica_notices.ts';
import type { Engine } from '../engines/port/engine.ts';
import type { WarehouseReports } from '../engines/warehouses/other_servers.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import { WriteReporter } from '../holds/write_reporter.ts';
import { networkOf } from '../http/connection/client_address.ts';
import { release } from '../model/release.ts';
import { ResultStore } from '../query/results/result_store.ts';
import { userOfVisitor } from '../resources/namespaces/bootstrap.ts';
import { ChangeFeed } from '../store/changes/change_feed.ts';
import { Servers } from '../store/servers.ts';
import { getOrCreateSetting, type Store } from '../store/store.ts';
import { Tasks } from '../tasks/tasks.ts';
import type { Foundation } from './foundation.ts';

/** Creates the parts that know what exists and who may do what, each after those that it needs. */
export async function assembleCore(foundation: Foundation, engines: readonly Engine[]) {
  const { settings, hooks, store, observe, webhooks } = foundation;
  const serverId = foundation.sharingId ?? (await getOrCreateSetting(store, serverIdSetting, randomUUID));
  const changes = await ChangeFeed.open({ store, serverId, observe });
  const { audit, auditReader } = assembleAudit({ ...foundation, serverId });
  const servers = otherServersOf(foundation, () => warehouses.reports());
  const otherServers = servers && {
    serverId: servers.serverId,
    reportOf: (id: string) => servers.find(id)?.report,
    noticesOf: noticesIn(store, changes),
  };
  const warehouses = assembleWarehouses(
    { ...foundation, otherServers },
    new CatalogReader(objectSource(store)),
    engines,
  );
  servers?.onReport((_, report, previous) => warehouses.reported(report, previous));
  const results = new ResultStore(foundation.resultBlobs);
  const callerLimits = assembleLimits({ ...foundation, serverId, networkOf });
  const caps = new Quotas({
    settings,
    elsewhere: callerLimits.queriesElsewhere,
    spilledBytes: async (warehouse) =>
      (await warehouses.condition(warehouse)).backends.reduce((sum, { spilledBytes }) => sum + spilledBytes, 0),
  });
  const tasks = new Tasks({
    ...foundation,
    changes,
    runnersMax: settings.taskRunnersMax,
    retentionDays: settings.taskRetentionDays,
    retryPauseMs: hooks.taskRetryPauseMs,
    requireRoom: (db, principalId) => caps.requireTaskQuota(db, principalId),
    trail: audit,
  });
  const catalog = new Catalog({
    store,
    changes,
    observe,
    engineOf: (name) => warehouses.use(name),
    warehouseExists,
    onTask: () => tasks.notify(),
    requireTaskQuota: (tx, principalId) => caps.requireTaskQuota(tx, principalId),
    addWebhook: (tx, taskId, notify) => webhooks.add(tx, taskId, notify),
    trail: audit,
    holder: foundation.holder,
  });
  warehouses.waitForRecoveryWith((warehouse) => catalog.waitForRecovery(warehouse));
  const records = new RecordCache(changes, settings.recordCacheBytesMax);
  warehouses.onDamageChanged((catalogId) => records.forget(catalogId, null));
  changes.follow(warehouses);
  const reporter = servers && reporterOf(foundation, { catalog, warehouses, changes });
  const access = await assembleAccess({
    ...foundation,
    changes,
    audit,
    catalog,
    failedLogins: callerLimits.failedLogins,
    createUser: (visitor, known) => userOfVisitor(visitor, { ...known, catalog }),
  });
  return {
    serverId,
    changes,
    audit,
    auditReader,
    servers,
    reporter,
    warehouses,
    results,
    callerLimits,
    caps,
    tasks,
    catalog,
    records,
    access,
  };
}

export type Core = Awaited<ReturnType<typeof assembleCore>>;

/** How the servers of the store notify each other of the replicas of a warehouse. */
const noticesIn =
  (store: Store, changes: ChangeFeed) =>
  (warehouseId: string): ReplicaNotices => {
    const publish = (backends: readonly string[], finding: ReplicaFinding) =>
      store.transaction(async (tx) => {
        for (const backend of backends) changes.append(tx, { kind: 'replica', warehouseId, backend, finding });
      });
    return {
      follow: () => changes.readNow(),
      publishBehind: (backends) => publish(backends, 'behind'),
      publishReading: (backend) => publish([backend], 'reading'),
    };
  };

/** Undefined if this server alone uses the store. */
function otherServersOf(
  { store, holder, observe }: Foundation,
  reports: () => Promise<WarehouseReports>,
): Servers | undefined {
  const { serverId } = holder;
  if (serverId === undefined) return undefined;
  return new Servers({
    store,
    serverId,
    holder,
    release,
    observe,
    report: async () => JSON.stringify(await reports()),
  });
}

/** What the servers that move catalogs need of this one. */
function reporterOf(
  { store, holder, observe }: Foundation,
  {
    catalog,
    warehouses,
    changes,
  }: { readonly catalog: Catalog; readonly warehouses: Warehouses; readonly changes: ChangeFeed },
): WriteReporter {
  const endHold = (taskId: string, asks: number) => catalog.endHold(taskId, asks);
  const reporter = new WriteReporter({ store, holder, observe, writesOf: warehouses.writesOf, endHold });
  warehouses.fenceWritesWith(reporter);
  changes.follow(reporter);
  return reporter;
}
