// Schedules: work that is done by itself at set times, as tasks of the schedule's owner: SQL, or actions of the API such as loads and
// exports.
import { getAtTop, listAtTop, renameAtTop } from '../../api/top_level.ts';
import type { Category } from '../../standard/endpoint.ts';
import { Type } from '../../standard/type.ts';
import { invalid } from '../records/fields.ts';
import {
  action,
  type Context,
  create,
  deleted,
  get,
  list,
  newOwner,
  ownerId,
  remove,
  render,
  update,
  updated,
} from '../records/handler_context.ts';
import { searchOf } from '../records/search.ts';
import { topLevelHandlers } from '../records/top_level_category.ts';
import {
  changed,
  changeFields,
  example,
  fields,
  isRetimed,
  nothing,
  type Schedule,
  ScheduleRecord,
  asSchedule as toRecord,
} from './schedule_record.ts';

type Tx = Parameters<Context['schedules']['setTimes']>[0];
const ChangeBody = Type.Object({ ...changeFields }, { additionalProperties: false });
const standing = topLevelHandlers({ category: 'schedules', parameter: 'schedule', toRecord });
const { pathOf } = standing;
const { query, cron, timeZone, priority } = example;

export const schedules: Category<Context> = {
  name: 'schedules',
  singular: 'schedule',
  title: 'Schedules',
  doc: 'Work that is done by itself at set times, as tasks of its owner, with the rights that the owner has then: SQL, or actions of the API.',
  parameter: 'schedule',
  record: ScheduleRecord,
  example,
  endpoints: [
    list({ ...listAtTop('Lists schedules by name.'), handle: standing.list }),
    get({ ...getAtTop('Shows a schedule, when it runs next and when it ran last.'), handle: standing.get }),
    create({
      summary: 'Creates a schedule.',
      description:
        'What it does is a `query`, or a `request`: an action of the API. It runs as its owner, and no further than the token may that says what it does. A minute is the shortest interval.',
      permission: { privilege: 'create', on: 'parent' },
      codes: ['INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'CHANGE_IN_PROGRESS', 'HOST_NOT_ALLOWED'],
      body: Type.Object({ ...changeFields, cron: fields.cron }, { additionalProperties: false }),
      bodyRequired: true,
      example: { body: { name: 'nightly', query, cron, timeZone, priority } },
      handle: async ({ body, ifExists }, context) => {
        const { name, owner, ...change } = body as typeof body & { name: string };
        if (!change.query && !change.request) throw invalid('/query', 'required', 'or /request says what it does');
        const { spec, secrets } = changed(nothing, {}, change, context);
        const { object, created: made } = await context.catalog.create({
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
        if (made) context.schedules.changed();
        return standing.createdAs(object, made, context);
      },
    }),
    update({
      summary: 'Changes a schedule.',
      description:
        'With another `cron` or `timeZone`, or enabled again, its times count from now on. What somebody else than its owner makes it do, the owner has to confirm.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS', 'HOST_NOT_ALLOWED'],
      body: ChangeBody,
      example: { body: { disabled: true } },
      handle: async ({ path, body }, context) => {
        const [object] = (await context.catalog.require(pathOf(path))) as [Schedule];
        const { owner, ...change } = body;
        const kept = await context.schedules.secretsOf(object.id);
        const { spec, secrets } = changed(object.spec, kept, change, context);
        // What kept it from running, up to now, is not true any more.
        const isAnew = isRetimed(object.spec, spec) || object.spec.confirmedBy.id !== spec.confirmedBy.id;
        const keep = async (tx: Tx, id: string) => {
          if (isAnew) await context.schedules.setTimes(tx, id, spec);
          if (secrets) await context.schedules.setSecrets(tx, id, secrets);
        };
        const outcome = await context.catalog.update(object, {
          spec,
          owner: await newOwner(owner, pathOf(path), context),
          principal: context.call.actor,
          ...(secrets || isAnew ? { inTransaction: (tx) => keep(tx, object.id) } : {}),
        });
        context.schedules.changed();
        return updated(await render(pathOf(path), [outcome.object ?? object], context, toRecord));
      },
    }),
    remove({
      summary: 'Deletes a schedule. Tasks that it made go on.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
      handle: async ({ path }, context) => {
        const [object] = (await context.catalog.find(pathOf(path))) ?? [];
        if (!object) return deleted(false);
        const was = await context.catalog.drop(object, {
          principal: context.call.actor,
          cascade: true,
          childCategories: [],
          inTransaction: (tx) => context.schedules.setSecrets(tx, object.id, {}),
        });
        return deleted(was);
      },
    }),
    action('rename', {
      ...renameAtTop(ScheduleRecord, 'Renames a schedule.', 'every_night'),
      handle: standing.rename,
    }),
    searchOf({ category: 'schedules', record: ScheduleRecord, toRecord, example: 'nightly%' }),
  ],
};
