// The failure for the text of a caller that is not valid SQL, with the position of the error.
import { Failure } from '../../standard/failure.ts';

/** SQL_INVALID with line and column, both from 1, in characters. `offset`: into the text, in UTF-16 units; undefined if unknown. */
export function sqlInvalid(message: string, sql: string, offset: number | undefined): Failure {
  const before = sql.slice(0, offset ?? 0);
  const line = before.split('\n').length;
  const column = [...before.slice(before.lastIndexOf('\n') + 1)].length + 1;
  const where = offset === undefined ? '' : ` (line ${line}, column ${column})`;
  return new Failure('SQL_INVALID', `${message}${where}`, { line, column, engineMessage: message });
}
