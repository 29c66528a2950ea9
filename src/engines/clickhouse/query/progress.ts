// The progress of a statement that runs on a server.
import type { ReportProgress } from '../../port/work.ts';
import type { ClickHouseServer } from '../connection/server.ts';

const intervalMs = 500;
const callTimeoutMs = 2000;

/** Reports what the server says until it is stopped; a server that does not answer is asked again. */
export function watchProgress(
  server: ClickHouseServer,
  queryId: string,
  report: ReportProgress | undefined,
): { readonly stop: () => void } {
  if (!report) return { stop: () => undefined };
  let isAsking = false;
  const ask = async () => {
    isAsking = true;
    const [row] = await server
      .rows<{ done: number }>({
        sql: `SELECT if(total_rows_approx > 0, least(read_rows / total_rows_approx, 1), 0) AS done FROM system.processes
          WHERE query_id = {id:String}`,
        parameters: { id: queryId },
        timeoutMs: callTimeoutMs,
      })
      .catch(() => []);
    isAsking = false;
    if (row && row.done > 0) report(row.done);
  };
  const timer = setInterval(() => {
    if (!isAsking) void ask();
  }, intervalMs);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}
