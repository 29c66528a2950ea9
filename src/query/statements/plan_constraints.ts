// Constraints on what a statement may turn out to be. A statement assembled from expressions in a request is checked by its plan, because
// each expression alone may be valid while the assembled text means something else.
import type { TableName } from '../../engines/port/refs.ts';
import type { StatementAnalysis } from '../../engines/port/statements.ts';
import { foldName } from '../../model/names.ts';
import { Failure } from '../../standard/failure.ts';

export interface ExpectedStatement {
  readonly kind: StatementAnalysis['kind'];
  /** The only table that the statement may write. */
  readonly table: TableName;
  readonly objectId?: string;
  /** The table is not visible yet, so no privilege on it can be granted: the task that creates it writes it. */
  readonly isNew?: true;
}

export function requireExpected(expected: ExpectedStatement | undefined, { kind, writes }: StatementAnalysis): void {
  if (!expected) return;
  const keyOf = ({ catalog, database, table }: TableName) => JSON.stringify([catalog, database, table].map(foldName));
  const isExpected =
    kind === expected.kind && writes.length === 1 && keyOf(writes[0] as TableName) === keyOf(expected.table);
  if (!isExpected)
    throw new Failure(
      'SQL_INVALID',
      `the expressions do not form a single ${expected.kind.toUpperCase()} statement on this table`,
    );
}

/** For exports and profiles. Throws SQL_NOT_SUPPORTED. */
export function requireSelect({ kind }: StatementAnalysis): void {
  if (kind !== 'select') throw new Failure('SQL_NOT_SUPPORTED', 'only SELECT is allowed here');
}
