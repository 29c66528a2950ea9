// The fields of bodies that control a task: its dependencies, its priority, and who is notified of its end. For every endpoint that
// may submit a task.
import { httpUrl } from '../standard/documented_limits.ts';
import { strictObject, Type } from '../standard/type.ts';
import { NewName } from './fields.ts';

const afterMax = 100;

export const waitSecondsDefault = 30;

export const PriorityField = Type.Union([Type.Literal('high'), Type.Literal('normal'), Type.Literal('low')], {
  title: 'TaskPriority',
  description:
    'The priority in the queue. Within a priority, users take turns; every eighth started task is the one that has waited longest.',
});

const secretCharactersMin = 16;

export const taskFields = {
  priority: Type.Optional(PriorityField),
  after: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
      title: 'TaskDependencies',
      maxItems: afterMax,
      description:
        'Ids of tasks that the caller may read: the task begins when all of them have succeeded, and fails with `TASK_DEPENDENCY_FAILED` when one has failed or was cancelled.',
    }),
  ),
  notify: Type.Optional(
    strictObject(
      {
        url: Type.String({
          minLength: 1,
          maxLength: 2048,
          writeOnly: true,
          description: 'An http or https URL of a host that the setting `webhookHosts` allows. Never returned.',
          ...httpUrl,
        }),
        secret: Type.Optional(
          Type.String({
            minLength: secretCharactersMin,
            maxLength: 256,
            writeOnly: true,
            description:
              'The key that signs the notification. Stored encrypted until the notification was sent; never returned.',
          }),
        ),
      },
      {
        title: 'TaskNotification',
        description:
          'The webhook that is notified of the end of the task: a POST, repeated until it is answered with 2xx or the retries are exhausted.',
      },
    ),
  ),
};

/** For a change that runs within the request unless it is large; then it is a task. */
export const sometimesByTask = (what: string) =>
  `${what} \`priority\` and \`notify\` apply to that task; with \`after\` it is always a task.`;

/** A new name, for a rename that may be a task. */
export const NewNameByTask = strictObject({ ...NewName.properties, ...taskFields }, { title: 'RenameByTaskRequest' });
