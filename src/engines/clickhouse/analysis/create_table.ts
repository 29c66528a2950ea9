// CREATE TABLE statements with their defaults checked by a server.
import { formatType } from '../../../model/types.ts';
import { Failure } from '../../../standard/failure.ts';
import type { ParsedCreateTable } from '../../port/statements.ts';
import { sqlInvalid } from '../../sql/sql_invalid.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import { parseCreateTable as parse } from '../sql/parse_create_table.ts';
import { checkDefault } from './default_expression.ts';

/** Throws SQL_INVALID or SQL_NOT_SUPPORTED. */
export async function parseCreateTable(
  server: ClickHouseServer,
  sql: string,
  signal?: AbortSignal,
): Promise<ParsedCreateTable> {
  const { parsed, defaults } = parse(sql);
  // Ten thousand columns may share one default.
  const checked = new Set<string>();
  for (const { column, type, expression, offset } of defaults) {
    const key = `${formatType(type)} ${expression}`;
    if (checked.has(key)) continue;
    checked.add(key);
    try {
      await checkDefault(server, expression, type, signal);
    } catch (error) {
      throw error instanceof Failure && error.code === 'INVALID_PARAMETER'
        ? sqlInvalid(`column ${JSON.stringify(column)}: ${error.message}`, sql, offset)
        : error;
    }
  }
  return parsed;
}
