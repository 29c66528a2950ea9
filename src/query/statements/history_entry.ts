// One entry of the statement history.
import type { ObjectVersion } from '../../model/principal.ts';

export type QueryState = 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled';

export interface QueryEntry {
  readonly queryId: string;
  readonly sql: string;
  readonly kind: string | null;
  readonly state: QueryState;
  readonly warehouse: string;
  readonly catalog: string;
  readonly database: string | null;
  readonly submittedBy: string;
  /** Id of the user who submitted it. */
  readonly owner: string;
  readonly submittedAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  readonly elapsedMs: number | null;
  readonly queuedMs: number | null;
  readonly rowCount: number | null;
  readonly resultBytes: number | null;
  readonly errorCode: string | null;
  readonly errorMessage: string | null;
  readonly taskId: string | null;
  /** Recorded for slow statements only; contains the values of the parameters. */
  readonly plan: string | null;
  /** The server that runs it, if it is another one and the statement has not ended. */
  readonly runsOn?: string | undefined;
  /** In the queue of that server. */
  readonly queuePosition?: number | undefined;
}

/** In milliseconds since 1970, by the clock of the server that runs it; NaN if the text is no id of a statement. */
export const submissionTimeOf = (queryId: string): number => {
  const [, high, low] = /^([0-9a-f]{8})-([0-9a-f]{4})-7/.exec(queryId) ?? [];
  return Number.parseInt(`${high}${low}`, 16);
};

export const versionOfQuery = ({ queryId, startedAt, endedAt }: QueryEntry): ObjectVersion => ({
  objectId: queryId,
  category: 'queries',
  name: queryId,
  version: endedAt !== null ? 3 : startedAt !== null ? 2 : 1,
});
