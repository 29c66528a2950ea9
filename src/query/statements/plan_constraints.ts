// Statements that were put together from parts of a request: each part was looked at by itself; what the whole means is for its
// plan to say, and it must be what was meant.
import type { StatementAnalysis, TableName } from '../../engines/engine.ts';
import { foldName } from '../../model/names.ts';
import { Failure } from '../../standard/failure.ts';

export interface ExpectedStatement {
  readonly kind: StatementAnalysis['kind'];
  /** The only table that is written. */
  readonly table: TableName;
  readonly objectId?: string;
  /** Nobody sees the table yet, and no privilege can be had on it: its task writes it. */
  readonly isNew?: true;
}

export function requireExpected(only: ExpectedStatement | undefined, { kind, writes }: StatementAnalysis): void {
  if (!only) return;
  const keyOf = ({ catalog, database, table }: TableName) => JSON.stringify([catalog, database, table].map(foldName));
  const isOnly = kind === only.kind && writes.length === 1 && keyOf(writes[0] as TableName) === keyOf(only.table);
  if (!isOnly) throw new Failure('SQL_INVALID', 'the parts do not make the statement that they are for');
}

/** For rows that go to files, and for profiles. */
export function requireReading({ kind }: StatementAnalysis): void {
  if (kind !== 'select') throw new Failure('SQL_NOT_SUPPORTED', 'a query is taken here, not a statement that writes');
}
