// The definition of a table that a load creates: as requested, completed by what was found in the file.

import type { ColumnBody, NewTableDefinition } from '../../api/tables/table_fields.ts';
import type { Engine } from '../../engines/port/engine.ts';
import type { ColumnDefinition, TableSpec } from '../../model/records.ts';
import { formatType } from '../../model/types.ts';
import type { DefinitionConversions, NewTableInput } from '../../query/loads/new_table_loads.ts';
import { Failure, violationsOf } from '../../standard/failure.ts';
import { defined, describe } from '../records/fields.ts';
import { bodyOf, definitionOf, requireKeys, tableSpec } from './table_definition.ts';

export const newTableDefinitions: DefinitionConversions = { specOf, bodyOf, definitionOf };

/** Throws INVALID_PARAMETER; DATA_INVALID if a column of the file that the request does not define cannot be a column of a table. */
function specOf(input: NewTableInput, inferred: readonly ColumnDefinition[], engine: Engine): TableSpec {
  const columns = inferred.map(({ name, type }, i): ColumnBody => {
    const { nullable, defaultValue, comment } = input.columns?.[i] ?? {};
    return { name, type: formatType(type), nullable: nullable ?? true, ...defined({ defaultValue, comment }) };
  });
  const definition = input.definition;
  try {
    return describe(tableSpec({ ...definition, columns }, engine), definition);
  } catch (error) {
    if (input.columns || !isAboutColumns(error)) throw error;
    throw new Failure(
      'DATA_INVALID',
      `${error.message}; define the columns of the table in \`columns\`; nothing was loaded`,
    );
  }
}

function isAboutColumns(error: unknown): error is Failure {
  if (!(error instanceof Failure) || error.code !== 'INVALID_PARAMETER') return false;
  return violationsOf(error)[0]?.pointer.startsWith('/columns') === true;
}

/** Validates the requested part immediately. A column without a type can have any. */
export function requestedSpec(input: NewTableInput, engine: Engine): TableSpec {
  const definition = input.definition;
  if (!input.columns) {
    const { primaryKey, unique_key_constraints: uniqueKey } = definition;
    requireKeys({ primaryKey: primaryKey ?? [], uniqueKey: uniqueKey ?? [] }, engine);
    return describe(undefinedSpec(definition), definition);
  }
  const columns = input.columns.map(({ name, type = 'STRING', ...more }) => {
    const { nullable, defaultValue, comment } = more;
    return { name, type, ...defined({ nullable, defaultValue, comment }) };
  });
  return describe(tableSpec({ ...definition, columns }, engine), definition);
}

/** The stored definition until the file has been read. */
export function expectedSpec({ definition }: NewTableInput): TableSpec {
  return describe(undefinedSpec(definition), definition);
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
