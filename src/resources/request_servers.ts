// Which server of a shared store must process a request: the one that has the data of the warehouse, the result of the task or the bytes
// of the file. Requests that only read metadata are processed by any server.
import { defaultCatalogName, defaultWarehouseName } from '../api/namespaces/catalogs.ts';
import type { CatalogSpec } from '../model/records.ts';
import { type Endpoint, isMutation } from '../standard/endpoint.ts';
import { type Route, type Segment, segmentsOfUri } from '../standard/paths.ts';
import type { ScheduleSpec } from '../tasks/schedule.ts';
import type { Context, Services } from './records/handler_context.ts';

type ServersParts = Pick<
  Services,
  'catalog' | 'changes' | 'warehouses' | 'tasks' | 'files' | 'history' | 'resultAccess'
> & {
  /** This server. */
  readonly serverId: string;
};
type Body = Readonly<Record<string, unknown>>;
type RequestRoute = Route<Context>;

/** Categories whose records come from the engine. */
const engineCategories: ReadonlySet<string> = new Set(['backends', 'tablets', 'replicas']);
/** Actions that use the engine and change nothing are statements: they have a task or a place in the queue. */
const needsEngine = ({ verb: _, ...endpoint }: Endpoint<Context>, category: string): boolean =>
  endpoint.task !== undefined || endpoint.queued === true || engineCategories.has(category);

export class RequestServers {
  readonly #parts: ServersParts;
  /** The warehouses of catalogs by their names; cleared when any catalog changes. */
  readonly #warehouses = new Map<string, string>();

  constructor(parts: ServersParts) {
    this.#parts = parts;
    const clear = () => this.#warehouses.clear();
    parts.changes.follow({
      changed: (change) => {
        if (change.kind === 'object' && change.category === 'catalogs') clear();
      },
      reload: clear,
    });
  }

  async ofPath(route: RequestRoute): Promise<string | undefined> {
    const { endpoint, category, segments } = route;
    const [root] = segments;
    if (root === undefined || this.dependsOnBody(route)) return undefined;
    const isUse = isMutation(endpoint) || needsEngine(endpoint, category.name);
    switch (root.category) {
      case 'catalogs':
        return isUse ? this.#ofCatalog(root.name) : undefined;
      case 'warehouses':
        return isUse ? this.#parts.warehouses.otherServerOf(root.name) : undefined;
      case 'tasks':
        // Its server knows the progress of a running task.
        return this.#ofTask(root);
      case 'uploads':
        return isUse ? this.ofFile((await this.#parts.files.find(root.name))?.serverId ?? null) : undefined;
      case 'schedules':
        return endpoint.action === 'run' ? this.#ofSchedule(root) : undefined;
      case 'queries':
        return endpoint.action === 'explain' ? this.#ofQuery(root) : this.#thatRuns(root);
      default:
        return undefined;
    }
  }

  /** Whether it creates an object in a catalog or a warehouse that the body names. */
  dependsOnBody({ endpoint: { verb, action }, category: { name } }: RequestRoute): boolean {
    if (name === 'catalogs')
      return verb === 'create' || action === 'undrop' || action === 'restore' || action === 'move';
    return name === 'tables' && (action === 'copy_definition' || action === 'clone');
  }

  async ofBody({ endpoint: { action }, category, segments }: RequestRoute, body: Body): Promise<string | undefined> {
    const { warehouse = defaultWarehouseName, catalog, id, name } = body;
    if (category.name === 'tables')
      return this.#ofCatalog(typeof catalog === 'string' ? catalog : (segments[0]?.name ?? ''));
    if (action === 'move') return this.#ofMove(segments[0]?.name ?? '', String(warehouse));
    if (action !== 'undrop') return this.#parts.warehouses.otherServerOf(String(warehouse));
    const by = typeof id === 'string' ? { id } : { name: String(name) };
    const [dropped] = await this.#parts.catalog.findDropped(null, 'catalogs', by);
    return dropped && this.#parts.warehouses.otherServerOf(dropped.warehouse);
  }

  isAnsweredByAny({ endpoint: { verb }, category: { name } }: RequestRoute): boolean {
    return (name === 'tasks' || name === 'queries') && verb === 'get';
  }

  endsWork({ endpoint: { verb, action }, category: { name } }: RequestRoute): boolean {
    return (name === 'tasks' || name === 'queries') && (action === 'cancel' || verb === 'delete');
  }

  ofFile(fileServerId: string | null): string | undefined {
    return fileServerId === null || fileServerId === this.#parts.serverId ? undefined : fileServerId;
  }

  /** The server that calls the action of a schedule, or runs its statement. */
  ofScheduled({ call, task }: Pick<ScheduleSpec, 'call' | 'task'>): Promise<string | undefined> | undefined {
    if (task) return this.#ofCatalog(task.request.catalog ?? defaultCatalogName);
    const [root] = segmentsOfUri(call?.on ?? '');
    return root && this.#ofCatalog(root.category === 'catalogs' ? root.name : defaultCatalogName);
  }

  async #ofCatalog(name: string): Promise<string | undefined> {
    const warehouse = await this.#warehouseOf(name);
    return warehouse === undefined ? undefined : this.#parts.warehouses.otherServerOf(warehouse);
  }

  /** The data of a catalog are moved where they are; if all servers reach them, where they are moved to. */
  async #ofMove(name: string, to: string): Promise<string | undefined> {
    const { warehouses } = this.#parts;
    const from = await this.#warehouseOf(name);
    if (from === undefined) return undefined;
    const { isReachedByAllServers } = await warehouses.engineOf(from);
    return warehouses.otherServerOf(isReachedByAllServers ? to : from);
  }

  async #warehouseOf(name: string): Promise<string | undefined> {
    const known = this.#warehouses.get(name);
    if (known !== undefined) return known;
    const [root] = (await this.#parts.catalog.find([{ category: 'catalogs', name }])) ?? [];
    if (!root) return undefined;
    const { warehouse }: CatalogSpec = root.spec;
    this.#warehouses.set(name, warehouse);
    return warehouse;
  }

  /** A result in the bucket can be read, and deleted, by every server. */
  async #ofTask({ name }: Segment): Promise<string | undefined> {
    const task = await this.#parts.tasks.get(name);
    const isInBucket = task?.state === 'succeeded' && (await this.#parts.resultAccess.storedAs(name));
    return isInBucket ? undefined : this.ofFile(task?.serverId ?? null);
  }

  async #ofQuery({ name }: Segment): Promise<string | undefined> {
    const entry = await this.#parts.history.get(name);
    return entry && this.#ofCatalog(entry.catalog);
  }

  /** Only its server knows how far a running statement is, and can cancel it. */
  async #thatRuns({ name }: Segment): Promise<string | undefined> {
    return this.ofFile((await this.#parts.history.get(name))?.runsOn ?? null);
  }

  async #ofSchedule({ name }: Segment): Promise<string | undefined> {
    const [schedule] = (await this.#parts.catalog.find([{ category: 'schedules', name }])) ?? [];
    return schedule && this.ofScheduled(schedule.spec);
  }
}
