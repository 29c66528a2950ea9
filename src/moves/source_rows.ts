// Reads the source of a move by statements of its engine.
import type { EngineWarehouse } from '../engines/port/engine.ts';
import type { Statement, StatementResult } from '../engines/port/statements.ts';
import type { Principal } from '../model/principal.ts';
import { Failure } from '../standard/failure.ts';

const readMsMax = 24 * 3_600_000;
/** The size of a page of rows. */
const pageBytesMax = 4 * 1024 * 1024;

interface ReadOptions {
  readonly principal: Principal;
  readonly signal: AbortSignal;
  /** Of the file of a result that is not returned as text. */
  readonly resultPath: string;
}

/** Throws CHANGE_IN_PROGRESS if the statement cannot read the table now. */
export async function readSource(
  engine: EngineWarehouse,
  statement: Statement,
  { principal, signal, resultPath }: ReadOptions,
): Promise<StatementResult> {
  const analysis = await engine.analyze(statement, { principal, signal });
  if (analysis.kind !== 'select') throw new Failure('CHANGE_IN_PROGRESS', 'the table is being changed');
  const options = { signal, analysis, numbers: 'number', timeoutMs: readMsMax, resultPath, pageBytesMax } as const;
  return engine.execute(statement, options);
}
