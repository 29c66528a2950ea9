// Runs statements of callers that write.
import type { TableName } from '../../port/refs.ts';
import type { ExecuteOptions, StatementResult } from '../../port/statements.ts';
import type { WarehouseContext } from '../context.ts';
import { stagingPrefix } from '../load/staging.ts';
import { namesOf } from '../names.ts';
import { insertSelect } from '../rows/insert_select.ts';
import { mutate } from '../rows/mutations.ts';
import { completeEarlier } from '../rows/pending_steps.ts';
import { completeBefore } from '../steps/left_writes.ts';
import type { BoundStatement, BoundWrite } from './bound_statement.ts';
import type { RunningWrites } from './running_writes.ts';

/** Once for each step: a repetition completes what an earlier attempt began. */
export async function executeWrite(
  context: WarehouseContext,
  { write, parameters, toFailure, analysis }: BoundStatement & { readonly write: BoundWrite },
  { resultPath, step, timeoutMs, signal, progress }: ExecuteOptions,
  writes: RunningWrites,
): Promise<StatementResult> {
  const { catalog } = write.table;
  const attempt = step === undefined ? undefined : await context.steps.begin(catalog, [step]);
  const earlier = step === undefined ? undefined : await completeEarlier(context, catalog, step, attempt);
  if (earlier !== undefined) return { ...countResult(earlier), repeated: true };
  // A load may be of rows that the statement deletes.
  if (write.kind !== 'insert') {
    const { database, localTable } = namesOf({ ...write.table, catalog: catalog.name });
    await completeBefore(context, catalog, { prefix: stagingPrefix, place: { database, localTable } });
  }
  try {
    return await writes.run(resultPath, step, async (takeStep) => {
      const work = { parameters, timeoutMs, signal, progress, takeStep, attempt, toFailure };
      const rowCount =
        write.kind === 'insert'
          ? await insertSelect(context, { ...work, write, reads: analysis.reads })
          : await mutate(context, { ...work, write, reads: analysis.reads });
      return countResult(rowCount);
    });
  } finally {
    markChanged(context, analysis.writes);
  }
}

function markChanged({ changed }: WarehouseContext, tables: readonly TableName[]): void {
  for (const table of tables) changed.add(table);
}

const countResult = (rowCount: number): StatementResult => ({
  columns: [{ name: 'Count', type: 'BIGINT' }],
  rowCount,
  rows: { kind: 'text', text: `[${rowCount}]` },
  truncated: false,
});
