// The fields of bodies that control a task: its dependencies, its priority, and who is notified of its end. For every endpoint that
// may submit a task.
import { httpUrl } from '../standard/documented_limits.ts';
import { Type } from '../standard/type.ts';
import { NewName } from './fields.ts';

const afterMax = 100;

export const waitSecondsDefault = 30;

export const PriorityField = Type.Union([Type.Literal('high'), Type.Literal('normal'), Type.Literal('low')], {
  title: 'TaskPriority',
  description:
    'The priority in the queue. Within a priority users take turns; every eighth started task is the longest-waiting one.',
});

export const secretCharactersMin = 16;

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
    Type.Object(
      {
        url: Type.String({
          minLength: 1,
          maxLength: 2048,
          writeOnly: true,
          description: 'http or https, of a host that the setting `webhookHosts` allows. Not shown again.',
          ...httpUrl,
        }),
        secret: Type.Optional(
          Type.String({
            minLength: secretCharactersMin,
            maxLength: 256,
            writeOnly: true,
            description: 'The key that signs the notification. Stored encrypted until it was sent, never shown.',
          }),
        ),
      },
      {
        title: 'TaskNotification',
        additionalProperties: false,
        description:
          'Where the end of the task is reported: a POST, at least once, repeated until it is answered with 2xx or given up.',
      },
    ),
  ),
};

/** Further codes of endpoints with these fields. */
export const taskCodes = ['HOST_NOT_ALLOWED', 'TOO_MANY_TASKS'] as const;

/** For a change that is made at once unless it is large. */
export const sometimesByTask = (what: string) =>
  `${what} \`priority\` and \`notify\` are for that task; with \`after\` it is a task in any case.`;

/** A new name, for a rename that may be a task. */
export const NewNameByTask = Type.Object(
  { ...NewName.properties, ...taskFields },
  { title: 'RenameByTaskRequest', additionalProperties: false },
);
