// The definition of a table that a load makes: what the request says of it, and for the rest what was found in the file.

import type { ColumnBody, NewTableDefinition } from '../../api/tables/table_fields.ts';
import type { Engine } from '../../engines/engine.ts';
import type { ColumnDefinition, TableSpec } from '../../model/records.ts';
import { formatType } from '../../model/types.ts';
import type { DefinitionConversions, NewTableInput } from '../../query/loads/new_table_loads.ts';
import { Failure, violationsOf } from '../../standard/failure.ts';
import { defined, describe } from '../records/fields.ts';
import { bodyOf, definitionOf, tableSpec } from './table_definition.ts';

export const newTableDefinitions: DefinitionConversions = { specOf, bodyOf, definitionOf };

/** Throws INVALID_PARAMETER; DATA_INVALID where a column of the file, of which nothing was said, cannot be one of a table. */
function specOf(asked: NewTableInput, inferred: readonly ColumnDefinition[], engine: Engine): TableSpec {
  const columns = inferred.map(({ name, type }, i): ColumnBody => {
    const { nullable, defaultValue, comment } = asked.columns?.[i] ?? {};
    return { name, type: formatType(type), nullable: nullable ?? true, ...defined({ defaultValue, comment }) };
  });
  const said = asked.definition;
  try {
    return describe(tableSpec({ ...said, columns }, engine), said);
  } catch (error) {
    if (asked.columns || !isAboutColumns(error)) throw error;
    throw new Failure('DATA_INVALID', `${error.message}; say in \`columns\` what the table gets; nothing was loaded`);
  }
}

function isAboutColumns(error: unknown): error is Failure {
  if (!(error instanceof Failure) || error.code !== 'INVALID_PARAMETER') return false;
  return violationsOf(error)[0]?.pointer.startsWith('/columns') === true;
}

/** As far as the request says it: what is wrong with that is said at once. A column without a type can be anything. */
export function requestedSpec(asked: NewTableInput, engine: Engine): TableSpec {
  const said = asked.definition;
  if (!asked.columns) return describe(undefinedSpec(said), said);
  const columns = asked.columns.map(({ name, type = 'STRING', ...more }) => {
    const { nullable, defaultValue, comment } = more;
    return { name, type, ...defined({ nullable, defaultValue, comment }) };
  });
  return describe(tableSpec({ ...said, columns }, engine), said);
}

/** What is kept of the table until the file was looked at. */
export function expectedSpec(asked: NewTableInput): TableSpec {
  const said = asked.definition;
  return describe(undefinedSpec(said), said);
}

const undefinedSpec = ({ replicationNum = 1 }: NewTableDefinition): TableSpec => ({
  columns: [],
  primaryKey: [],
  uniqueKey: [],
  orderBy: [],
  partitionBy: [],
  distribution: { by: [], buckets: 1 },
  replicationNum,
});
