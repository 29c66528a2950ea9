// The declaration of `move` of a catalog. See move_result.ts for the result of its task.
import { strictObject, Type } from '../../standard/type.ts';
import { action } from '../declare.ts';
import { engineCodes } from '../fields.ts';
import { taskFields } from '../task_fields.ts';

export const retainSecondsDefault = 86_400;
export const pauseSecondsDefault = 30;
export const roundsMaxDefault = 10;

const consent = (description: string) => Type.Optional(Type.Boolean({ default: false, description }));

/** It reads and writes the whole catalog. */
const moveCost = 50;

export const moveCatalogApi = action('object', {
  summary: 'Moves a catalog with its data to another warehouse, of any engine.',
  description:
    'Always a task (202). The catalog can be read and written meanwhile; definitions cannot be changed (`CHANGE_IN_PROGRESS`). Tables that were written while they were copied are copied again in rounds. Then writes are refused with `CHANGE_IN_PROGRESS` for at most `pauseSeconds`: the rest is copied, both engines prove each table by its row count and the checksums of its columns, and one transaction switches the catalog. Names, grants, owners, comments, properties, statistics, saved objects and schedules stay. A cancelled or failed move leaves the catalog where it was. With `dryRun` nothing is moved: the result says what would not carry over, how much it is and how long it would take.',
  permission: { privilege: 'alter', on: 'object' },
  codes: ['MOVE_NOT_POSSIBLE', 'OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS', ...engineCodes],
  body: strictObject({
    warehouse: Type.String({ minLength: 1, maxLength: 128, description: 'The warehouse to move to.' }),
    dryRun: Type.Optional(Type.Boolean({ default: false, description: 'Only report what a move would do.' })),
    retainSeconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 31_536_000,
        default: retainSecondsDefault,
        description: 'How long the copy that is left behind is kept, in seconds.',
      }),
    ),
    pauseSeconds: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 600,
        default: pauseSecondsDefault,
        description:
          'The longest time for which writes are refused before the switch, in seconds. If it is over, writes continue and a further round begins.',
      }),
    ),
    roundsMax: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 100,
        default: roundsMaxDefault,
        description: 'How many rounds copy changed tables before writes are refused.',
      }),
    ),
    dropUnsupportedViews: consent('Views that the target cannot create are dropped.'),
    dropUnenforcedKeys: consent('Tables lose primary and unique keys that the target does not enforce.'),
    forgetDroppedObjects: consent('Dropped objects in the catalog can no longer be restored.'),
    ...taskFields,
  }),
  bodyRequired: true,
  task: 'move_catalog',
  cost: moveCost,
  example: { body: { warehouse: 'cluster', dryRun: true } },
});
