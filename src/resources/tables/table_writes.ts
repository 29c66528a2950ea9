// Actions that change rows of a table without a statement of the caller's: what is to be written is named, its values are
// expressions. The engine makes one statement of it, which then goes the way of all statements (query/).

import { noNul } from '../../api/fields.ts';
import { codes, Parameters, Query, queryCost, Statistics, WaitSeconds } from '../../api/queries/statement_fields.ts';
import { taskCodes, taskFields } from '../../api/task_fields.ts';
import type { BuiltStatement, StatementParameters, TableWrite } from '../../engines/engine.ts';
import { confirmedRun } from '../../query/statements/query_submission.ts';
import type { PathParameters } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { uriOf } from '../../standard/paths.ts';
import { type Static, Type } from '../../standard/type.ts';
import { invalid } from '../records/fields.ts';
import { accepted, action, type Context, done, requirePrivilege, segment } from '../records/handler_context.ts';
import { splitTaskOptions, waitSecondsOf } from '../records/task_fields.ts';
import { type TableChain, tableRef } from '../table_definitions/create_and_alter.ts';
import { columnsMax } from '../table_definitions/table_definition.ts';
import { optimizeTable } from './table_optimize.ts';

export const expressionCharactersMax = 65_536;

const Expression = Type.String({
  minLength: 1,
  maxLength: expressionCharactersMax,
  pattern: noNul,
  description: 'One SQL expression over the columns of the table.',
});
const Where = Type.String({
  minLength: 1,
  maxLength: expressionCharactersMax,
  pattern: noNul,
  description: 'Which rows: one SQL expression. `true` is all of them.',
});
const common = { parameters: Type.Optional(Parameters), waitSeconds: Type.Optional(WaitSeconds), ...taskFields };
const Changed = Type.Object({
  rowCount: Type.Integer({ description: 'Rows changed.' }),
  statistics: Statistics,
  queryId: Type.String(),
});
const exampleResult = {
  rowCount: 3,
  statistics: { elapsedMs: 2.1, queuedMs: 0, resultBytes: 3 },
  queryId: '019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d',
};

const UpdateBody = Type.Object(
  {
    set: Type.Record(Type.String(), Expression, {
      minProperties: 1,
      maxProperties: columnsMax,
      description: 'Column to expression.',
    }),
    where: Where,
    ...common,
  },
  { additionalProperties: false },
);
const DeleteBody = Type.Object({ where: Where, ...common }, { additionalProperties: false });
const InsertBody = Type.Object(
  {
    sql: Query,
    columns: Type.Optional(
      Type.Array(Type.String(), {
        minItems: 1,
        maxItems: columnsMax,
        description: 'The columns that it fills, in its order; others get their defaults. By default all.',
      }),
    ),
    ...common,
  },
  { additionalProperties: false },
);
type Common = Omit<Static<typeof DeleteBody>, 'where'>;

const shared = {
  on: 'object' as const,
  permission: { privilege: 'write' as const, on: 'object' as const },
  codes: [...codes, ...taskCodes],
  bodyRequired: true,
  result: Changed,
  mayAccept: true,
  cost: queryCost,
};
const past = 'Past `waitSeconds` it goes on as a task (202).';

/** The actions, and the one that tidies up after them. `pathOf`: of the table. */
export const tableWrites = (pathOf: PathOf) => [
  updateRows(pathOf),
  deleteRows(pathOf),
  insertSelect(pathOf),
  optimizeTable(pathOf),
];
type PathOf = (path: PathParameters) => ReturnType<typeof segment>[];

async function written(
  path: ReturnType<PathOf>,
  body: Common,
  context: Context,
  writeOf: (chain: TableChain) => TableWrite,
) {
  const { applied } = context.call.actor.guard ?? {};
  if (applied) return done(confirmedRun(applied));
  const waitSeconds = waitSecondsOf(body);
  const { parameters, waitSeconds: _, ...sent } = body;
  const { asked, options } = await splitTaskOptions(sent, context);
  const chain = (await context.catalog.require(path)) as TableChain;
  const [root, database, table] = chain;
  await requirePrivilege('use', [segment('warehouses', root.spec.warehouse)], context);
  const write = writeOf(chain);
  const statement = await (await context.warehouses.use(root.spec.warehouse)).buildStatement(write);
  const answer = await context.submitter
    .submit({
      request: {
        sql: statement.sql,
        parameters: parameters as StatementParameters | undefined,
        numbers: 'number',
        catalog: root.name,
        database: database.name,
        only: {
          kind: write.kind,
          table: { catalog: root.name, database: database.name, table: table.name },
          objectId: table.id,
        },
        asked,
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
  const { result, statistics, queryId } = answer.run;
  return done({ rowCount: result.rowCount, statistics, queryId });
}

const updateRows = (pathOf: PathOf) =>
  action('update', {
    ...shared,
    auditName: 'update_rows',
    summary: 'Changes rows of a table: columns get the values of expressions.',
    description: `The caller reads the table too, and so needs \`read\` on it, as on every table that an expression names. ${past}`,
    body: UpdateBody,
    example: { body: { set: { price: 'price * 1.1' }, where: "kind = 'book'" }, result: exampleResult },
    handle: ({ path, body }, context) =>
      written(pathOf(path), body, context, (chain) => ({
        kind: 'update',
        table: tableRef(chain),
        set: Object.entries(body.set).map(([column, text]) => {
          const pointer = `/set/${escaped(column)}`;
          requireColumn(column, pointer, chain);
          return { column, value: { text, pointer } };
        }),
        where: { text: body.where, pointer: '/where' },
      })),
  });

const deleteRows = (pathOf: PathOf) =>
  action('delete_rows', {
    freesSpace: true,
    ...shared,
    summary: 'Deletes rows of a table.',
    description: `The caller reads the table too, and so needs \`read\` on it. ${past}`,
    body: DeleteBody,
    example: { body: { where: "placed_at < DATE '2020-01-01'" }, result: exampleResult },
    handle: ({ path, body }, context) =>
      written(pathOf(path), body, context, (chain) => ({
        kind: 'delete',
        table: tableRef(chain),
        where: { text: body.where, pointer: '/where' },
      })),
  });

const insertSelect = (pathOf: PathOf) =>
  action('insert_select', {
    ...shared,
    summary: 'Inserts the rows of a query into a table, all or none.',
    description: `The caller needs \`read\` on every table of the query. ${past}`,
    body: InsertBody,
    example: {
      body: { sql: 'SELECT id, placed_at FROM orders_staging', columns: ['id', 'placed_at'] },
      result: exampleResult,
    },
    handle: ({ path, body }, context) =>
      written(pathOf(path), body, context, (chain) => {
        body.columns?.forEach((column, i) => {
          requireColumn(column, `/columns/${i}`, chain);
          if (body.columns?.indexOf(column) !== i) throw invalid(`/columns/${i}`, 'unique', 'stands twice');
        });
        return {
          kind: 'insert',
          table: tableRef(chain),
          columns: body.columns,
          query: { text: body.sql, pointer: '/sql' },
        };
      }),
  });

const escaped = (key: string) => key.replaceAll('~', '~0').replaceAll('/', '~1');

function requireColumn(name: string, pointer: string, [, , { spec }]: TableChain): void {
  if (!spec.columns.some((column) => column.name === name))
    throw invalid(pointer, 'column', `is no column of the table: ${JSON.stringify(name)}`);
}

/** The engine counts lines of the statement that it made; the caller knows those of his body. */
function placedInBody(error: unknown, { parts }: BuiltStatement): unknown {
  if (!(error instanceof Failure) || error.code !== 'SQL_INVALID') return error;
  const { line, column, engineMessage } = error.result as { line?: number; column?: number; engineMessage?: string };
  const part = parts.findLast((one) => line !== undefined && one.line <= line);
  if (!part || line === undefined || engineMessage === undefined) return error;
  const at = { line: line - part.line + 1, column };
  const message = `${part.pointer}: ${engineMessage} (line ${at.line}, column ${column})`;
  return new Failure('SQL_INVALID', message, { ...at, engineMessage, pointer: part.pointer });
}
