// Failures about the file of a load.
import { Failure } from '../../../../src/standard/failure.ts';

export interface RejectedRow {
  /** From 1, without header and skipped rows. */
  readonly row: number;
  readonly column: string | null;
  readonly reason: string;
  readonly text: string | null;
}

const textCharactersMax = 500;

export const dataInvalid = (message: string, result: object = {}): Failure =>
  new Failure('DATA_INVALID', `${message}; nothing was loaded`, { ...result });

export const rejectedFailure = (rejected: RejectedRow): Failure => {
  const column = rejected.column === null ? '' : `, column ${JSON.stringify(rejected.column)}`;
  const text = rejected.text?.slice(0, textCharactersMax) ?? null;
  return dataInvalid(`row ${rejected.row}${column}: ${rejected.reason}`, { ...rejected, text });
};
