// What a user of the console can do about a failure, with the values of its result. The advice of the table of codes is for programs, and names
// the fields of the result.
import { codes } from '../../../src/standard/codes.ts';

type Result = Readonly<Record<string, unknown>>;

/** Between backticks: shown as code. */
const quoted = (value: unknown): string => `\`${String(value)}\``;
const isShown = (value: unknown): boolean => typeof value === 'string' || typeof value === 'number';

/** `row 3, column \`price\``: of the fields that the result has. */
const placeOf = (result: Result, fields: readonly string[]): string =>
  fields
    .filter((field) => isShown(result[field]))
    .map((field) => `${field} ${typeof result[field] === 'number' ? result[field] : quoted(result[field])}`)
    .join(', ');

const atPlace = (result: Result, fields: readonly string[]): string => {
  const place = placeOf(result, fields);
  return place === '' ? '' : ` at ${place}`;
};

/** By the reason why a server cannot be a backend. */
const unsuitable: Readonly<Record<string, string>> = {
  credentials: 'Correct the user or the password of the warehouse.',
  version: 'Update the server to a version that the engine supports.',
  cluster: 'Add the server to the cluster definition, on all servers of the cluster.',
  replication: 'Set it up like the other backends, which differ from it in what they can replicate.',
  registered: 'It is a backend already.',
  protocol: 'Correct the URL: another service responds there.',
};

const advice = {
  INVALID_PARAMETER: () => 'Correct the values that the message names.',
  UNKNOWN_FIELD: () => 'Reload the page: it may be of another version than the server.',
  MALFORMED_JSON: (result) => `Correct the text${atPlace(result, ['line', 'column'])}.`,
  BODY_TOO_LARGE: ({ bytesMax, valuesMax }) =>
    `Send less data at once${isShown(bytesMax) ? `; the limit is ${bytesMax} bytes` : isShown(valuesMax) ? `; the limit is ${valuesMax} values` : ''}.`,
  NOT_SUPPORTED_BY_ENGINE: ({ capability }) =>
    `Do without it${isShown(capability) ? ` (${quoted(capability)})` : ''}, or use a warehouse of another engine.`,
  VERSION_CONFLICT: () =>
    'Somebody has changed it since you opened this. Close it and open it again, which shows the values of now.',
  IN_USE: () => 'Change or remove the objects that depend on it first.',
  TASK_DEPENDENCY_FAILED: ({ taskId }) =>
    `Find out why the task ${isShown(taskId) ? `${quoted(taskId)} ` : 'before it '}did not succeed, then run both again.`,
  SQL_INVALID: (result) => `Correct the statement${atPlace(result, ['line', 'column'])}.`,
  ROWS_INVALID: () => 'Correct the rows that the message names.',
  DATA_INVALID: (result) =>
    `Correct the data${atPlace(result, ['line', 'row', 'column'])}, or the options of its format.`,
  CONSTRAINT_VIOLATED: () => 'Correct the rows that violate the constraint.',
  RESULT_QUOTA_EXCEEDED: () => 'Delete tasks whose results are no longer needed, or request fewer rows.',
  FILE_OFFSET_INVALID: () => 'Start the upload again; it continues where it ended.',
  FILE_DIGEST_MISMATCH: () => 'Start the upload again; it continues where it ended.',
  FILE_QUOTA_EXCEEDED: () => 'Delete uploads that are no longer needed.',
  DRAFT_QUOTA_EXCEEDED: () => 'Delete drafts that are no longer needed.',
  SAVED_QUERY_QUOTA_EXCEEDED: () => 'Delete saved queries that are no longer needed.',
  OBJECT_NOT_FOUND: ({ name }) =>
    isShown(name)
      ? `Check the name ${quoted(name)}; the object may have been renamed or dropped.`
      : 'Check the name; the object may have been renamed or dropped.',
  INTERNAL_ERROR: ({ errorId }) =>
    `Try again later. If it fails again, report it to the operator of the server${isShown(errorId) ? ` with the id ${quoted(errorId)}` : ''}.`,
  REMOTE_REFUSED: ({ remoteStatus }) =>
    `Correct the address or the credentials${isShown(remoteStatus) ? `; the remote server responded with the status ${remoteStatus}` : ''}.`,
  CATALOG_DAMAGED: ({ reason }) =>
    `Notify an operator${isShown(reason) ? ` (${reason})` : ''}: \`tabularium check\` reports what can be repaired.`,
  REPLICAS_UNAVAILABLE: ({ tables }) =>
    `Try again when the backends of ${Array.isArray(tables) && tables.every(isShown) ? tables.map(quoted).join(', ') : 'its tables'} are available again.`,
  BACKEND_UNSUITABLE: ({ reason }) =>
    unsuitable[String(reason)] ?? 'Correct what the message names, then register the server again.',
  DECOMMISSION_BLOCKED: () =>
    'The backend is disabled, and still has its tables. Enable it, or decommission it again: its warehouse then shows what that waits for.',
  MOVE_BLOCKED: () => 'Check the move again: it lists what would not carry over, and what you can consent to.',
  MOVE_VERIFICATION_FAILED: (result) =>
    `Report it to the operator of the server${atPlace(result, ['database', 'table', 'column'])}; the move can be tried again.`,
} satisfies Partial<Record<keyof typeof codes, (result: Result) => string>>;

/** Undefined for a code that this console does not know. */
export function userAdvice(code: string, result: Result): string | undefined {
  const known: Readonly<Record<string, (result: Result) => string>> = advice;
  const table: Readonly<Record<string, { readonly client: string }>> = codes;
  return known[code]?.(result) ?? table[code]?.client;
}
