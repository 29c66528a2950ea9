// The handlers of `schedules`: work that runs at set times, as tasks of the schedule's owner: SQL, or actions of the API such as
// loads and exports.

import { schedulesApi } from '../../api/tasks/schedules.ts';
import { invalidParameter } from '../../standard/failure.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { render } from '../records/object_records.ts';
import { updated } from '../records/outcomes.ts';
import { newOwner, ownerId } from '../records/permissions.ts';
import { findByName } from '../records/search.ts';
import { accepted } from '../records/task_record.ts';
import { handlersAtTop } from '../records/top_level_category.ts';
import { changed, isRetimed, nothing, asSchedule as toRecord } from './schedule_record.ts';

type Tx = Parameters<Context['schedules']['setTimes']>[0];
const commonHandlers = handlersAtTop('schedules', toRecord);

export const schedules = implement(schedulesApi, {
  list: commonHandlers.list,
  get: commonHandlers.get,
  create: async ({ body, ifExists }, context) => {
    const { name, owner, ...change } = body;
    if (!change.query && !change.request) throw invalidParameter('/query', 'required', 'or /request is required');
    const { spec, secrets } = changed(nothing, {}, change, context);
    const { object, created: isNew } = await context.catalog.create({
      parent: null,
      category: 'schedules',
      name,
      spec,
      owner: ownerId(owner, context),
      principal: context.call.actor,
      ifExists,
      inTransaction: async (tx, id) => {
        await context.schedules.setTimes(tx, id, spec);
        if (secrets) await context.schedules.setSecrets(tx, id, secrets);
      },
    });
    if (isNew) context.schedules.changed();
    return commonHandlers.createdAs(object, isNew, context);
  },
  update: async ({ segments, body }, context) => {
    const [object] = await context.catalog.require(segments);
    const { owner, ...change } = body;
    const previousSecrets = await context.schedules.secretsOf(object.id);
    const { spec, secrets } = changed(object.spec, previousSecrets, change, context);
    // The reason why it could not run no longer applies.
    const isAnew = isRetimed(object.spec, spec) || object.spec.confirmedBy.id !== spec.confirmedBy.id;
    const keep = async (tx: Tx, id: string) => {
      if (isAnew) await context.schedules.setTimes(tx, id, spec);
      if (secrets) await context.schedules.setSecrets(tx, id, secrets);
    };
    const outcome = await context.catalog.update(object, {
      spec,
      owner: await newOwner(owner, segments, context),
      principal: context.call.actor,
      ...(secrets || isAnew ? { inTransaction: (tx) => keep(tx, object.id) } : {}),
    });
    context.schedules.changed();
    return updated(await render(segments, [outcome.object ?? object], context, toRecord));
  },
  delete: (input, context) =>
    commonHandlers.delete(input, context, (tx, id) => context.schedules.setSecrets(tx, id, {})),
  run: async ({ segments }, context) => {
    const [object] = await context.catalog.require(segments);
    const taskId = await context.schedules.runNow(object.id, context.call.actor);
    const task = await context.tasks.get(taskId);
    if (!task) throw new Error(`the task ${taskId} of a schedule was not stored`);
    return accepted(task, context);
  },
  rename: commonHandlers.rename,
  search: findByName(schedulesApi, toRecord),
});
