// The actions on backends that change whether they are used: disable, enable, decommission and its cancellation.
import type { backendsApi } from '../../api/compute/backends.ts';
import type { SegmentsOf } from '../../api/handlers.ts';
import type { ObjectOf } from '../../catalog/object.ts';
import { type DecommissionRequest, decommissionTask } from '../../jobs/decommission_backend.ts';
import { newId } from '../../model/ids.ts';
import type { Actor } from '../../model/principal.ts';
import type { BackendSpec } from '../../model/records.ts';
import { Failure } from '../../standard/failure.ts';
import { uriOf } from '../../standard/paths.ts';
import type { Context, HandlersOf } from '../records/handler_context.ts';
import { render } from '../records/object_records.ts';
import { done } from '../records/outcomes.ts';
import { taskOptions } from '../records/task_fields.ts';
import { acceptedTask } from '../records/task_record.ts';
import { backendRecord } from './backend_record.ts';

type Path = SegmentsOf<typeof backendsApi>;
type Handlers = HandlersOf<typeof backendsApi>;

const drainSecondsDefault = 300;
const timeoutSecondsDefault = 86_400;

async function change(path: Path, newSpec: (spec: BackendSpec) => BackendSpec, context: Context) {
  const [warehouse, backend] = await context.catalog.require(path);
  const spec = newSpec(backend.spec);
  const changed = await context.catalog.update(backend, { spec, principal: context.call.actor });
  await context.warehouses.apply(warehouse.name);
  return done(await render(path, [warehouse, changed.object ?? backend], context, backendRecord));
}

const refused = (message: string) => new Failure('CHANGE_NOT_SUPPORTED', message);

function requireNotDecommissioning({ decommission }: BackendSpec): void {
  if (decommission && decommission.phase !== 'done')
    throw refused('the backend is being decommissioned; cancel that with cancel_decommission');
}

async function requireCluster(warehouse: ObjectOf<'warehouses'>, context: Context): Promise<void> {
  const { name, cluster } = await context.warehouses.engineOf(warehouse.name);
  if (!cluster)
    throw refused(`the engine ${JSON.stringify(name)} has no cluster; its backend cannot be decommissioned`);
}

export const disable: Handlers['disable'] = ({ segments }, context) =>
  change(segments, (spec) => ({ ...spec, disabled: true }), context);

/** Its tables are created again after a decommission. */
export const enable: Handlers['enable'] = ({ segments }, context) => {
  return change(
    segments,
    (spec) => {
      requireNotDecommissioning(spec);
      const { decommission: _, ...rest } = spec;
      return { ...rest, disabled: false };
    },
    context,
  );
};

export const decommission: Handlers['decommission'] = async ({ segments, body }, context) => {
  const options = await taskOptions(body, context);
  const { drainSeconds = drainSecondsDefault, timeoutSeconds = timeoutSecondsDefault } = body;
  const [warehouse, backend] = await context.catalog.require(segments);
  await requireCluster(warehouse, context);
  requireNotDecommissioning(backend.spec);
  if (backend.spec.decommission) throw refused('the backend is decommissioned already');
  const { actor, principal, version } = context.call;
  const taskId = newId();
  const request: DecommissionRequest = { objectId: backend.id, drainSeconds, timeoutSeconds };
  // A repeated request is answered with the task, because submitting the task marks the idempotency key.
  const changer: Actor = { ...actor, guard: undefined };
  await context.catalog.update(backend, {
    spec: {
      ...backend.spec,
      disabled: true,
      decommission: { taskId, startedAt: new Date().toISOString(), phase: 'draining' },
    },
    principal: changer,
    inTransaction: async (tx) => {
      actor.writing = true;
      const task = { taskId, type: decommissionTask, principal, guard: actor.guard, request } as const;
      await context.tasks.submit({ ...task, target: uriOf(version, segments), ...options }, tx);
    },
  });
  actor.audited = true;
  actor.changed = true;
  context.tasks.notify();
  await context.warehouses.apply(warehouse.name);
  return acceptedTask(taskId, decommissionTask, context);
};

/** The task finds that it was cancelled before it drops anything. */
export const cancelDecommission: Handlers['cancel_decommission'] = async ({ segments }, context) => {
  const [warehouse, backend] = await context.catalog.require(segments);
  await requireCluster(warehouse, context);
  const { decommission: current, ...spec } = backend.spec;
  if (!current || current.phase === 'done') throw refused('the backend is not being decommissioned');
  if (current.phase === 'dropping')
    throw new Failure('TASK_NOT_CANCELLABLE', 'the tables of the backend are being dropped already');
  const changed = await context.catalog.update(backend, {
    spec: { ...spec, disabled: false },
    principal: context.call.actor,
  });
  await context.tasks.cancel(current.taskId, { ...context.call.actor, guard: undefined });
  await context.warehouses.apply(warehouse.name);
  return done(await render(segments, [warehouse, changed.object ?? backend], context, backendRecord));
};
