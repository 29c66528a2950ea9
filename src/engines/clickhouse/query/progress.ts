// The progress of a statement that runs on a server.
import type { ReportProgress } from '../../port/work.ts';
import type { ClickHouseServer } from '../connection/server.ts';

const intervalMs = 500;
const callTimeoutMs = 2000;

export interface ProgressWatch {
  readonly stop: () => void;
}

/** Of one statement. */
export const watchProgress = (
  server: ClickHouseServer,
  queryId: string,
  report: ReportProgress | undefined,
): ProgressWatch =>
  watchFraction(report, async () => {
    const [row] = await server.rows<{ done: number }>({
      sql: `SELECT if(total_rows_approx > 0, least(read_rows / total_rows_approx, 1), 0) AS done FROM system.processes
          WHERE query_id = {id:String}`,
      parameters: { id: queryId },
      timeoutMs: callTimeoutMs,
    });
    return row?.done ?? 0;
  });

/** Reports what `ask` finds, if it is more than 0, until it is stopped; servers that do not answer are asked again. */
export function watchFraction(report: ReportProgress | undefined, ask: () => Promise<number>): ProgressWatch {
  if (!report) return { stop: () => undefined };
  let isAsking = false;
  let isStopped = false;
  const askAndReport = async () => {
    isAsking = true;
    const done = await ask().catch(() => 0);
    isAsking = false;
    if (done > 0 && !isStopped) report(done);
  };
  const timer = setInterval(() => {
    if (!isAsking) void askAndReport();
  }, intervalMs);
  timer.unref();
  return {
    stop: () => {
      isStopped = true;
      clearInterval(timer);
    },
  };
}
