// The result of a move of a catalog, and what it says about things that do not carry over.
import { Type } from '../../standard/type.ts';
import { nullable, oneOf, Timestamp } from '../fields.ts';

/** Fields of the body by which a caller accepts a loss. */
const moveConsents = ['dropUnsupportedViews', 'dropUnenforcedKeys', 'forgetDroppedObjects'] as const;
export type MoveConsent = (typeof moveConsents)[number];

const kindTexts = {
  view: 'the target cannot create a view',
  dependentView: 'a view in another catalog reads the catalog',
  keys: 'the target does not enforce the keys of a table',
  definition: 'the target cannot create a table, because of a type, a name, a default or a limit',
  values: 'the target cannot hold some values of a table',
  droppedObjects: 'dropped objects that could be restored do not carry over',
  schedule: 'a schedule names the warehouse of today',
} as const;
export type MoveProblemKind = keyof typeof kindTexts;
const kinds = [
  'view',
  'dependentView',
  'keys',
  'definition',
  'values',
  'droppedObjects',
  'schedule',
] as const satisfies readonly MoveProblemKind[];

const MoveProblem = Type.Object(
  {
    kind: oneOf(kinds, {}, kindTexts),
    database: nullable(Type.String()),
    name: nullable(Type.String({ description: 'The name of the table, the view or the schedule.' })),
    reason: Type.String(),
    blocks: Type.Boolean({ description: 'Whether the catalog is not moved because of it.' }),
    consent: nullable(oneOf(moveConsents), { title: 'MoveConsent' }),
  },
  { title: 'MoveProblem', description: '`consent`: the field of the request with which it no longer blocks.' },
);

export const MoveTaskResult = Type.Object(
  {
    catalog: Type.String(),
    from: Type.String({ description: 'The warehouse that had the data.' }),
    to: Type.String({ description: 'The warehouse that has them now, or would have them.' }),
    dryRun: Type.Boolean(),
    databases: Type.Integer(),
    tables: Type.Integer(),
    views: Type.Integer(),
    rows: Type.Integer(),
    bytes: Type.Integer({ description: 'The size in the warehouse that had the data.' }),
    problems: Type.Array(MoveProblem, { description: 'What does not carry over, or did not.' }),
    estimatedSeconds: nullable(
      Type.Number({ description: 'Of a dry run: the time of the move, from the speed of copying a part of the data.' }),
    ),
    rounds: nullable(Type.Integer({ description: 'How many times changed tables were copied; null after a dry run.' })),
    pausedMs: nullable(Type.Integer({ description: 'How long writes were refused; null after a dry run.' })),
    retainedUntil: nullable(Timestamp, { title: 'RetainedUntil' }),
  },
  {
    title: 'MoveTaskResult',
    description: 'The result of a move. `retainedUntil`: when the copy that was left behind is deleted.',
  },
);
