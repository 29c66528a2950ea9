// What the engine says of a statement: how it would run it (the plan), and how it ran it (the profile).
import type { StatementResult } from '../../engine.ts';
import type { Session } from '../instance/connection_pool.ts';
import type { WireStatement } from '../process/protocol.ts';
import { bindParameters } from './parameters.ts';
import { preparedOnce } from './results.ts';

/** In both: lines of ours above the user's text. */
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

/** Runs a select; its rows are counted and dropped. */
export async function profileStatement(session: Session, statement: WireStatement): Promise<StatementResult> {
  const text = `EXPLAIN (ANALYZE, FORMAT json)\n${statement.sql}`;
  const rows = await preparedOnce(session.connection, text, statement, async (prepared) =>
    (await prepared.runAndReadAll()).getRows(),
  );
  // The text is the caller's own, with ours in front of it.
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

/** The statement is under the operator that drops its rows. */
function rowsOfRoot({ children }: Operator): number {
  return children?.[0]?.children?.[0]?.operator_cardinality ?? 0;
}

/** With the plan where it took long: what it costs to make is little then. */
export async function withPlan(
  session: Session,
  statement: WireStatement,
  planAfterMs: number | undefined,
  run: () => Promise<StatementResult>,
): Promise<StatementResult> {
  const began = performance.now();
  const result = await run();
  if (planAfterMs === undefined || performance.now() - began < planAfterMs || result.repeated) return result;
  // The statement is done, whatever becomes of this.
  const plan = await explainStatement(session, statement).catch(() => undefined);
  return plan === undefined ? result : { ...result, plan };
}
