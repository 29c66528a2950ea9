// EXPLAIN: the plan of a statement, and the profile of a run.
import type { StatementResult } from '../../port/statements.ts';
import type { Session } from '../instance/connection_pool.ts';
import type { WireStatement } from '../process/protocol.ts';
import { bindParameters } from './parameters.ts';
import { preparedOnce } from './prepared_once.ts';

/** Lines that both add above the caller's text. */
export const linesAboveExplained = 1;

/** The engine's plan as text. */
export async function explainStatement(session: Session, statement: WireStatement): Promise<string> {
  const prepared = await session.connection.prepare(`EXPLAIN\n${statement.sql}`);
  try {
    await bindParameters(prepared, statement.parameters, session.connection);
    const rows = (await prepared.runAndReadAll()).getRows();
    return rows.map((row) => String(row[1])).join('\n');
  } finally {
    prepared.destroySync();
  }
}

/** Runs a SELECT; its rows are counted and discarded. */
export async function profileStatement(session: Session, statement: WireStatement): Promise<StatementResult> {
  const text = `EXPLAIN (ANALYZE, FORMAT json)\n${statement.sql}`;
  const rows = await preparedOnce(session.connection, text, statement, async (prepared) =>
    (await prepared.runAndReadAll()).getRows(),
  );
  // The query name is the caller's text with the EXPLAIN prefix.
  const { query_name: _, ...profile } = JSON.parse(String(rows[0]?.[1])) as Record<string, unknown>;
  return {
    columns: [],
    rowCount: rowsOfRoot(profile),
    rows: { kind: 'text', text: '' },
    truncated: false,
    profile,
  };
}

interface Operator {
  readonly operator_cardinality?: number;
  readonly children?: readonly Operator[];
}

/** The statement's root is the child of the operator that discards the rows. */
function rowsOfRoot({ children }: Operator): number {
  return children?.[0]?.children?.[0]?.operator_cardinality ?? 0;
}

/** Adds the plan to the result of a slow statement, where the cost of planning again does not matter. */
export async function withPlan(
  session: Session,
  statement: WireStatement,
  planAfterMs: number | undefined,
  run: () => Promise<StatementResult>,
): Promise<StatementResult> {
  const startedAt = performance.now();
  const result = await run();
  if (planAfterMs === undefined || performance.now() - startedAt < planAfterMs || result.repeated) return result;
  // The statement succeeded, even if explaining it fails.
  const plan = await explainStatement(session, statement).catch(() => undefined);
  return plan === undefined ? result : { ...result, plan };
}
