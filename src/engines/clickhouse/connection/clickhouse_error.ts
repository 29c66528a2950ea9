// Errors of a server: how they are read from a response, and the failures that callers see. A message of a server can have host names,
// names of stored objects and its version: none of them is shown.
import { randomUUID } from 'node:crypto';
import type { Code, RequestOutcome } from '../../../standard/codes.ts';
import { Failure } from '../../../standard/failure.ts';
import { EngineLost } from '../../engine_lost.ts';

export class ClickHouseError extends Error {
  override name = 'ClickHouseError';
  /** The number of the error, such as 60. */
  readonly code: number;
  /** The name of the error, such as `UNKNOWN_TABLE`; empty on servers that send none. */
  readonly kind: string;

  constructor(code: number, kind: string, message: string) {
    super(message);
    this.code = code;
    this.kind = kind;
  }
}

const errorPattern = /Code: (\d+)(?:\.|,) (?:e\.displayText\(\) = )?(?:DB|Coordination)::\w*Exception: ([\s\S]*)$/;

/** @returns undefined if the text has no error. */
export function parseError(text: string): ClickHouseError | undefined {
  const [, code, rest = ''] = errorPattern.exec(text) ?? [];
  if (code === undefined) return undefined;
  // The text ends with `(NAME) (version 24.8.1.1 (official build))`; a stack may follow.
  const end = rest.lastIndexOf('(version ');
  const body = (end < 0 ? rest : rest.slice(0, end)).trim();
  const [, message = body, kind = ''] = /^([\s\S]*?)\.? \(([A-Z][A-Z0-9_]*)\)$/.exec(body) ?? [];
  return new ClickHouseError(Number(code), kind, message);
}

interface Condition {
  readonly code: Code;
  readonly message: string;
  readonly outcome?: RequestOutcome;
}

const cancelled: Condition = { code: 'STATEMENT_CANCELLED', message: 'the statement was cancelled' };
const noReplica: Condition = { code: 'REPLICAS_UNAVAILABLE', message: 'no replica of a shard is available' };
/** In the error of a replica that does not count and was to be read (query/statement_settings.ts). */
export const uncountedMark = `uncounted replica ${randomUUID()}`;
const noQuorum: Condition = {
  code: 'REPLICAS_UNAVAILABLE',
  message: 'too few replicas are available to store rows',
  outcome: 'notApplied',
};
const lost: Condition = { code: 'WAREHOUSE_FAILED', message: 'a server of the warehouse was lost', outcome: 'unknown' };
const refused: Condition = {
  code: 'WAREHOUSE_FAILED',
  message: 'the servers of the warehouse refuse its credentials',
  outcome: 'notApplied',
};
const busy: Condition = { code: 'WAREHOUSE_BUSY', message: 'the servers of the warehouse are busy' };
/** A statement that writes may have been stopped on some of the servers only. */
const outOfMemory: Condition = {
  code: 'WAREHOUSE_BUSY',
  message: 'a server of the warehouse is short of memory',
  outcome: 'unknown',
};

/** Errors that are a condition of the servers, whoever's statement it was. */
const conditions: Readonly<Record<number, Condition>> = {
  394: cancelled,
  241: { code: 'MEMORY_LIMIT_EXCEEDED', message: 'the statement needs more memory than the warehouse allows' },
  243: { code: 'STORAGE_FULL', message: 'the disk of a server of the warehouse is full' },
  202: busy,
  252: busy,
  // Connections between servers.
  279: noReplica,
  369: noReplica,
  3: lost,
  32: lost,
  198: lost,
  209: lost,
  210: lost,
  236: lost,
  // Replication.
  225: noQuorum,
  242: noQuorum,
  // The session with Keeper ended while the part was committed.
  244: { ...noQuorum, outcome: 'unknown' },
  285: noQuorum,
  286: noQuorum,
  305: noQuorum,
  319: { ...noQuorum, outcome: 'unknown' },
  341: { ...noQuorum, outcome: 'unknown' },
  // A replica that has not carried out an earlier ALTER takes no other one.
  517: { ...busy, outcome: 'notApplied' },
  999: { ...noQuorum, outcome: 'unknown' },
  // The account of the warehouse.
  192: refused,
  193: refused,
  194: refused,
  516: refused,
};

const memoryExceeded = 241;
/** The limit of a server, or of all statements of its user, as 24.8 and 26.7 name it. That of one statement is `(for query)` or `Query`. */
const sharedMemory =
  /^(?:Received from \S+ DB::Exception: )*(?:Memory limit \((?:total|for user)\)|\(total\) memory limit|User memory limit) exceeded\b/;

const accessDenied = 497;

/** What the user of the warehouse may not do: the privilege without the objects of which it is missing. Undefined if the error is another one. */
export function missingPrivilege({ code, message }: ClickHouseError): string | undefined {
  if (code !== accessDenied) return undefined;
  const privilege = /\bgrants? (TABLE ENGINE ON \w+|[A-Z][A-Z ]*?)(?= ON\b|\(|,|$)/.exec(message)?.[1];
  return `lacks ${privilege === undefined ? 'a privilege' : `the privilege ${privilege}`}`;
}

/** Whether a server has picked a replica that does not count: another one may be read. */
export const isUncounted = (error: unknown): boolean =>
  error instanceof ClickHouseError
    ? error.message.includes(uncountedMark)
    : error instanceof Failure && isUncounted(error.cause);

/** How often a read is begun whose server picks replicas that do not count. */
export const picksMax = 8;

function conditionOf(error: ClickHouseError): Condition | undefined {
  if (isUncounted(error)) return noReplica;
  const lack = missingPrivilege(error);
  if (lack !== undefined) return { ...refused, message: `the user of the warehouse ${lack} on its servers` };
  return error.code === memoryExceeded && sharedMemory.test(error.message) ? outOfMemory : conditions[error.code];
}

/** The failure of a condition of the servers; any other error is returned as it is. */
export function serverFailure(error: unknown): unknown {
  if (!(error instanceof ClickHouseError)) return error;
  const condition = conditionOf(error);
  if (!condition) return error;
  const { code, message, outcome } = condition;
  const cause = condition === lost ? Object.assign(new EngineLost({ isToBlame: false }), { cause: error }) : error;
  return new Failure(code, message, {}, { cause, outcome });
}

/** The failure of a lost connection. A connection that was never made did nothing. */
export function connectionLost(error: NodeJS.ErrnoException, wasSent: boolean): Failure {
  const cause = Object.assign(new EngineLost({ isToBlame: false }), { cause: error });
  const outcome: RequestOutcome = wasSent ? 'unknown' : 'notApplied';
  return new Failure('WAREHOUSE_FAILED', 'a server of the warehouse cannot be reached', {}, { cause, outcome });
}

export const cancelledFailure = (outcome?: RequestOutcome): Failure =>
  new Failure('STATEMENT_CANCELLED', 'the statement was cancelled', {}, { outcome });

/** The cause of the failure of a call that a server has not answered in time. */
class LateServer extends Error {
  override name = 'LateServer';
}

/** The failure of a call that a server has not answered in time: the caller is not to blame. */
export const lateFailure = (timeoutMs: number, outcome?: RequestOutcome): Failure =>
  new Failure(
    'WAREHOUSE_FAILED',
    `a server of the warehouse has not answered within ${timeoutMs / 1000} s`,
    {},
    { cause: new LateServer('the server has not answered in time'), outcome },
  );

export const isLate = (error: unknown): boolean => error instanceof Failure && error.cause instanceof LateServer;

/** @param outcome `unknown` where the statement may still have had its effect. */
export const timeoutFailure = (timeoutMs: number, outcome?: RequestOutcome): Failure =>
  new Failure(
    'STATEMENT_TIMEOUT',
    `the statement ran longer than ${timeoutMs / 1000} s and was stopped`,
    { timeoutSeconds: timeoutMs / 1000 },
    { outcome },
  );

/**
 * What a server says of a statement of a caller, without hosts, versions, texts of sent statements, and the names that it suggests: the caller may
 * not see them, and the error is about none of them.
 */
export function callerMessage({ message }: ClickHouseError): string {
  return message
    .replace(/^Received from \S+?\. DB::Exception: /, '')
    .replace(/\. Stack trace:[\s\S]*$/, '')
    .replace(/[.,:;]? ?Maybe you meant:?[\s\S]*$/i, '')
    .replace(/:? (?:In scope|While processing|While executing) [\s\S]*$/i, '')
    .replace(/: ?data for INSERT was parsed from query$/, '')
    .replaceAll(/\b(?:Received from|from|to|at) (?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:]+\]|[\w.-]+):\d{2,5}\b/gi, '')
    .trim();
}
