// The failures of loads, and the rows that they name.
import { Failure, invalidParameter } from '../../standard/failure.ts';

/** Limit of a rejected row's stored text. */
export const textCharactersMax = 4096;
/** How many of the invalid rows a failure shows. */
export const shownMax = 10;

export interface RejectedRow {
  /** From 1, without header and skipped rows. */
  readonly row: number;
  readonly column: string | null;
  readonly reason: string;
  readonly text: string | null;
}

/** A message of an engine may end with a period. */
export const withNothingLoaded = (message: string): string => `${message.replace(/[.\s]+$/, '')}; nothing was loaded`;

export const dataInvalid = (message: string, result: Readonly<Record<string, unknown>> = {}): Failure =>
  new Failure('DATA_INVALID', withNothingLoaded(message), result);

export const noObjectReason = 'it is no JSON object in UTF-8';

/** For a file that ends too early, or whose bytes are not of its format. */
export const incompleteFile = (): Failure => dataInvalid('the file is incomplete, or not of this format');

export const invalidColumns = (pointer: string, message: string): Failure =>
  invalidParameter(pointer, 'columns', message, `${pointer}: ${message}`);

const expressionCharactersMax = 16_384;

/** The failure for an expression of a column, by the reason. Throws it for one that is too long. */
export function expressionRefusal(pointer: string, name: string, expression: string): (why: string) => Failure {
  const refused = (why: string) =>
    invalidColumns(pointer, `the expression for ${JSON.stringify(name)} is not acceptable: ${why}`);
  if (expression.length > expressionCharactersMax)
    throw refused(`it is longer than ${expressionCharactersMax} characters`);
  return refused;
}

/** `rejected`: in the order of the file. */
export function rejectedFailure(rejected: readonly RejectedRow[], errorsMax: number): Failure {
  const [first] = rejected as [RejectedRow];
  const many = errorsMax > 0 ? `more than ${errorsMax} rows do not fit; the first: ` : '';
  const where = first.column === null ? '' : `, column ${JSON.stringify(first.column)}`;
  return dataInvalid(`${many}row ${first.row}${where}: ${first.reason}`, {
    row: first.row,
    column: first.column,
    reason: first.reason,
    text: first.text,
    rows: rejected.slice(0, shownMax),
  });
}
