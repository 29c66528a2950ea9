// The handlers of the actions that change rows of a table. The engine assembles one statement from the request, which then runs
// like any other (query/).

import type { SegmentsOf } from '../../api/handlers.ts';
import type { tablesApi } from '../../api/tables/tables.ts';
import type { BuiltStatement, StatementParameters, TableWrite } from '../../engines/port/statements.ts';
import { escapePointer } from '../../model/values/json_pointer.ts';
import { confirmedRun } from '../../query/statements/query_submission.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import { uriOf } from '../../standard/paths.ts';
import type { Context, HandlersOf } from '../records/handler_context.ts';
import { done } from '../records/outcomes.ts';
import { requireUse } from '../records/permissions.ts';
import { requireQueueCapacity, splitTaskOptions, type TaskBody, waitSecondsOf } from '../records/task_fields.ts';
import { accepted } from '../records/task_record.ts';
import { type TableChain, tableRef } from '../table_definitions/create_and_alter.ts';

interface WriteBody extends TaskBody {
  readonly parameters?: StatementParameters;
  readonly waitSeconds?: number;
}

async function written(
  path: SegmentsOf<typeof tablesApi>,
  body: WriteBody,
  context: Context,
  writeOf: (chain: TableChain) => TableWrite,
) {
  const { applied } = context.call.actor.guard ?? {};
  if (applied) return done(confirmedRun(applied));
  const waitSeconds = waitSecondsOf(body);
  await requireQueueCapacity(waitSeconds, path, context);
  const { parameters, waitSeconds: _, ...sent } = body;
  const { request, options } = await splitTaskOptions(sent, context);
  const chain = await context.catalog.require(path);
  const [root, database, table] = chain;
  await requireUse(root.spec.warehouse, context);
  const write = writeOf(chain);
  const statement = await (await context.warehouses.use(root.spec.warehouse)).buildStatement(write);
  const answer = await context.submitter
    .submit({
      request: {
        sql: statement.sql,
        parameters,
        numbers: 'number',
        catalog: root.name,
        database: database.name,
        only: {
          kind: write.kind,
          table: { catalog: root.name, database: database.name, table: table.name },
          objectId: table.id,
        },
        asked: request,
      },
      principal: context.call.principal,
      actor: context.call.actor,
      signal: context.call.signal,
      caller: context.call.caller,
      waitSeconds,
      ...options,
      target: uriOf(context.call.version, path),
    })
    .catch((error: unknown) => {
      throw placedInBody(error, statement);
    });
  if (answer.kind === 'task') return accepted(answer.task, context);
  if (answer.kind === 'begun') throw new Error('a statement that writes has no pages before its end');
  const { result, statistics, queryId } = answer.run;
  return done({ rowCount: result.rowCount, statistics, queryId });
}

type Writes = Pick<HandlersOf<typeof tablesApi>, 'update_rows' | 'delete_rows' | 'insert_select'>;

export const tableWrites: Writes = {
  update_rows: ({ segments, body }, context) =>
    written(segments, body, context, (chain) => ({
      kind: 'update',
      table: tableRef(chain),
      set: Object.entries(body.set).map(([column, text]) => {
        const pointer = `/set/${escapePointer(column)}`;
        requireColumn(column, pointer, chain);
        return { column, value: { text, pointer } };
      }),
      where: { text: body.where, pointer: '/where' },
    })),
  delete_rows: ({ segments, body }, context) =>
    written(segments, body, context, (chain) => ({
      kind: 'delete',
      table: tableRef(chain),
      where: { text: body.where, pointer: '/where' },
    })),
  insert_select: ({ segments, body }, context) =>
    written(segments, body, context, (chain) => {
      body.columns?.forEach((column, i) => {
        requireColumn(column, `/columns/${i}`, chain);
        if (body.columns?.indexOf(column) !== i) throw invalidParameter(`/columns/${i}`, 'unique', 'is repeated');
      });
      return {
        kind: 'insert',
        table: tableRef(chain),
        columns: body.columns,
        query: { text: body.sql, pointer: '/sql' },
      };
    }),
};

function requireColumn(name: string, pointer: string, [, , { spec }]: TableChain): void {
  if (!spec.columns.some((column) => column.name === name))
    throw invalidParameter(pointer, 'column', `is not a column of the table: ${JSON.stringify(name)}`);
}

/** The engine reports positions in the statement that it assembled; they are converted to positions in the body. */
function placedInBody(error: unknown, { parts }: BuiltStatement): unknown {
  if (!(error instanceof Failure) || error.code !== 'SQL_INVALID') return error;
  const { line, column, engineMessage } = error.result;
  if (typeof line !== 'number' || engineMessage === undefined) return error;
  const part = parts.findLast((candidate) => candidate.line <= line);
  if (!part) return error;
  const position = { line: line - part.line + 1, column };
  const message = `${part.pointer}: ${engineMessage} (line ${position.line}, column ${column})`;
  return new Failure('SQL_INVALID', message, { ...position, engineMessage, pointer: part.pointer });
}
