// The action `load` on a table: data from outside into it, by a task. What is read and how is query/loads/loads.ts'.
import { type LoadInput, loadTableTask } from '../../query/loads/loads.ts';
import type { PathParameters } from '../../standard/endpoint.ts';
import { type Segment, uriOf } from '../../standard/paths.ts';
import { type Static, Type } from '../../standard/type.ts';
import { accepted, action } from '../records/handler_context.ts';
import { splitTaskOptions } from '../records/task_fields.ts';
import { columnsMax } from '../table_definitions/table_definition.ts';
import { columnOrigin, fileFields, label, loadCodes, split } from './load_fields.ts';

const Column = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 255, description: 'Of the table.' }),
    ...columnOrigin,
  },
  { additionalProperties: false },
);

const LoadBody = Type.Object(
  {
    ...fileFields,
    columns: Type.Optional(
      Type.Array(Column, {
        minItems: 1,
        maxItems: columnsMax,
        description:
          'What the columns of the table get; one that is not named gets its default. By default those of the same name.',
      }),
    ),
    mode: Type.Optional(
      Type.Union([Type.Literal('append'), Type.Literal('replace'), Type.Literal('upsert')], {
        default: 'append',
        description:
          '`replace`: the table holds the file and nothing else. `upsert`: rows of the same primary key are replaced.',
      }),
    ),
    label: label('A load of this label that succeeded on this table is not done again: its result is answered.'),
  },
  { additionalProperties: false },
);
type Body = Static<typeof LoadBody>;

export const loadTable = (pathOf: (path: PathParameters) => Segment[]) =>
  action('load', {
    on: 'object',
    summary: 'Loads a file into a table, all or nothing: CSV, JSON, NDJSON or Parquet.',
    description:
      'Always a task. Its result has `rowsLoaded`, `rowsRejected`, the first `rejectedRows` (row, column, reason, text) and `bytes`; what a crash kept from being told is null. ' +
      'A file that cannot be read or does not fit ends it with `DATA_INVALID`, row and column, and the table is as it was.',
    permission: { privilege: 'write', on: 'object' },
    codes: loadCodes,
    body: LoadBody,
    bodyRequired: true,
    result: Type.Object({}),
    mayAccept: true,
    cost: 10,
    example: { body: { source: { path: '/data/incoming/orders.csv' }, mode: 'append', errorsMax: 10 } },
    handle: async ({ path, body }, context) => {
      const { asked, options } = await splitTaskOptions(body as Body, context);
      const segments = pathOf(path);
      const { source, credentials } = split(asked.source);
      const request = await context.loads.request(segments, { ...asked, source } as LoadInput, context.call.principal);
      const { principal, actor, version } = context.call;
      const target = uriOf(version, segments);
      const task = { type: loadTableTask, principal, guard: actor.guard, target, request, ...options };
      return accepted(await context.submitLoad(task, request.tableId, actor, credentials), context);
    },
  });
