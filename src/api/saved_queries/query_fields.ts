// The fields that drafts and saved queries share: the text of a query and where it runs.
import { Type } from '../../standard/type.ts';
import { noNul, nullable } from '../fields.ts';
import { Parameters, sqlCharactersMax } from '../queries/statement_fields.ts';

const Name = Type.String({ minLength: 1, maxLength: 128 });

const Sql = Type.String({
  maxLength: sqlCharactersMax,
  pattern: noNul,
  description: 'The text, which need not be valid SQL.',
});

const SavedParameters = nullable(Parameters, { title: 'SavedParameters' });

/** In records. */
export const queryFields = {
  sql: Sql,
  parameters: SavedParameters,
  catalog: nullable(Name),
  database: nullable(Name),
};

/** In bodies. Each given field replaces the previous value as a whole. */
export const queryChange = {
  sql: Type.Optional(Sql),
  parameters: Type.Optional(SavedParameters),
  catalog: Type.Optional(nullable(Name)),
  database: Type.Optional(nullable(Name)),
};

export const queryExample = {
  sql: 'SELECT lo_orderdate, sum(lo_revenue) AS revenue FROM lineorder GROUP BY lo_orderdate',
  parameters: null,
  catalog: 'default',
  database: 'ssb',
};
