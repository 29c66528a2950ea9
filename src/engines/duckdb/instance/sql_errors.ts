// What the engine throws → failures for the caller: its words without paths, art or advice meant for operators, and where in
// the text they point.
import { Failure } from '../../../standard/failure.ts';
import { checkpointFault, damageInError } from '../storage/catalog_damage.ts';

/** SQL_INVALID with line and column, both from 1, in characters. `offset` is one of the text (UTF-16); undefined: not said. */
export function sqlInvalid(message: string, sql: string, offset: number | undefined): Failure {
  const engineMessage = cleaned(message);
  const before = sql.slice(0, offset ?? 0);
  const line = before.split('\n').length;
  const column = [...before.slice(before.lastIndexOf('\n') + 1)].length + 1;
  const where = offset === undefined ? '' : ` (line ${line}, column ${column})`;
  return new Failure('SQL_INVALID', `${engineMessage}${where}`, { line, column, engineMessage });
}

/** The endpoint that does what a refused statement would. */
const instead: readonly (readonly [RegExp, string])[] = [
  [
    /^create\s+(or\s+replace\s+)?(temp\w*\s+)?table\b/i,
    'tables are made by POST .../tables/create, which takes this statement',
  ],
  [
    /^create\s+(or\s+replace\s+)?(temp\w*\s+)?view\b/i,
    'views are made by POST .../views/create, which takes this statement',
  ],
  [/^create\s+(schema|database)\b/i, 'databases are made by POST .../databases'],
  [/^alter\s+table\b/i, 'tables are changed by PATCH .../tables/{table}, and its actions'],
  [/^alter\s+view\b/i, 'views are changed by PATCH .../views/{view}, and its actions'],
  [/^alter\s+(schema|database)\b/i, 'databases are changed by PATCH .../databases/{database}, and its actions'],
  [/^(copy|export)\b/i, 'rows are written to files by POST .../export, and read from files by POST .../load'],
  [/^comment\b/i, 'comments are changed by PATCH of the object'],
  [/^drop\s+table\b/i, 'tables are deleted by DELETE .../tables/{table}'],
  [/^drop\s+view\b/i, 'views are deleted by DELETE .../views/{view}'],
  [/^drop\s+(schema|database)\b/i, 'databases are deleted by DELETE .../databases/{database}'],
  [/^truncate\b/i, 'tables are emptied by POST .../tables/{table}/truncate'],
  [/^(show|describe|desc|summarize)\b/i, 'what exists is shown by GET on its URI'],
  [/^explain\b/i, 'plans are shown by POST .../explain'],
  [/^(use)\b/i, 'the default namespace is the path of the request'],
  [/^(begin|start|commit|rollback|abort)\b/i, 'each request is a transaction of its own'],
  [/^(pivot|unpivot)\b/i, 'write it inside a SELECT: SELECT * FROM (PIVOT ...) with an IN list'],
];

/** SQL_NOT_SUPPORTED for a statement that is understood and not offered. */
export function refusedStatement(sql: string, what: string): Failure {
  const start = withoutLeadingComments(sql);
  const hint = instead.find(([pattern]) => pattern.test(start))?.[1];
  const said = hint ?? `SELECT, INSERT, UPDATE, DELETE and MERGE are run as SQL (${cleaned(what).slice(0, 120)})`;
  return new Failure('SQL_NOT_SUPPORTED', said);
}

function withoutLeadingComments(sql: string): string {
  return sql.replace(/^(?:\s+|--[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)+/, '');
}

/** The engine was asked for a file that it may not open. Its words name the file. */
export const isAboutFiles = (message: string): boolean =>
  /file system operations are disabled by configuration|^(?:Permission Error: )?File system .* has been disabled/.test(
    message,
  );

export const filesRefused = (): Failure => new Failure('SQL_NOT_SUPPORTED', 'files are not read or written by SQL');

/** Of the operating system, where it is not the engine that writes. */
const fullDisk: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT']);

/** The engine can no longer be trusted. */
export class FatalEngineError extends Error {
  override name = 'FatalEngineError';
}

export interface ErrorPlace {
  /** The user's text. */
  readonly sql: string;
  /** How many lines of ours stand above it in what the engine ran. */
  readonly linesAbove: number;
}

/** Any error of a run → what to throw. Failures pass through. */
export function failureOf(error: unknown, place: ErrorPlace): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  if (fullDisk.has((error as NodeJS.ErrnoException).code ?? '')) return storageFull(error);
  if (error instanceof Failure || !/^[A-Z][A-Za-z ]* Error: |^INTERRUPT/.test(error.message)) return error;
  const { message } = error;
  if (isAboutFiles(message)) return filesRefused();
  const broken = engineFailure(message);
  if (broken) return broken;
  if (/^INTERRUPT/.test(message)) return new Failure('STATEMENT_CANCELLED', 'the statement was cancelled');
  if (/^Out of Memory Error/.test(message)) {
    return message.includes('max_temp_directory_size')
      ? new Failure('SPILL_LIMIT_EXCEEDED', 'the statement needs more temporary disk than the warehouse allows')
      : new Failure('MEMORY_LIMIT_EXCEEDED', 'the statement needs more memory than the warehouse allows');
  }
  // A commit that finds no room says so as an error of the transaction.
  if (/^(?:IO|TransactionContext) Error.*no space left/is.test(message)) return storageFull(error);
  if (/^IO Error/.test(message))
    return new Failure('WAREHOUSE_FAILED', 'the engine could not read or write its files', {}, { cause: error });
  if (/^Constraint Error/.test(message))
    return new Failure('CONSTRAINT_VIOLATED', cleaned(message), { engineMessage: cleaned(message) });
  if (/^TransactionContext Error/.test(message)) {
    return new Failure(
      'WAREHOUSE_BUSY',
      'other statements changed the same rows at the same time, again and again',
      {},
      { cause: error },
    );
  }
  return sqlInvalid(message, place.sql, offsetOf(message, place));
}

/** What an error of the engine says of itself or of a file of a catalog, whatever was asked of it; undefined: nothing. */
export function engineFailure(message: string): Error | undefined {
  const reason = damageInError(message);
  const isCheckpoint = checkpointFault(message) !== undefined;
  // Without damage a new engine attaches the database again, which is all it needs.
  const isFatal = /^(?:FATAL|INTERNAL) Error|database has been invalidated/i.test(message) || isCheckpoint;
  if (isFatal && !(isCheckpoint && reason !== undefined)) return new FatalEngineError(message);
  if (reason === undefined) return undefined;
  return new Failure('CATALOG_DAMAGED', 'a catalog of the statement is damaged', { reason, isFatal: isCheckpoint });
}

const storageFull = (cause: Error) => new Failure('STORAGE_FULL', 'the disk of the service is full', {}, { cause });

/** The engine's `LINE n:` and caret, as an offset into the user's text. */
function offsetOf(message: string, { sql, linesAbove }: ErrorPlace): number | undefined {
  const found = /\n\nLINE (\d+): (.*)\n( *)\^/.exec(message);
  if (!found) return undefined;
  const line = Number(found[1]) - linesAbove;
  const shown = found[2] as string;
  const lines = sql.split('\n');
  const text = lines[line - 1];
  if (text === undefined) return undefined;
  const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  const caret = (found[3] as string).length - `LINE ${found[1]}: `.length;
  if (!shown.startsWith('...')) return start + offsetOfWidth(text, caret);
  // A long line is shown from its middle: find that part again.
  const part = shown.slice(3).replace(/\.\.\.$/, '');
  const at = text.indexOf(part);
  return at < 0 ? start : start + at + offsetOfWidth(text.slice(at), caret - 3);
}

const wide =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u;

/** The engine puts its caret where a terminal would show the place. */
function offsetOfWidth(text: string, width: number): number {
  let offset = 0;
  for (const character of text) {
    if (width <= 0) break;
    width -= wide.test(character) ? 2 : 1;
    offset += character.length;
  }
  return offset;
}

/** The engine counts bytes of UTF-8. */
export function offsetOfByte(sql: string, byte: number): number {
  return Buffer.from(sql, 'utf8').subarray(0, Math.max(0, byte)).toString('utf8').length;
}

/** First paragraph, without the kind of error in front, and without anything that looks like a file. */
export function cleaned(message: string): string {
  const [first = ''] = message.split(/\n\n|\nPossible solutions|\nLINE \d|(?<=\.) Use "SET /);
  return (
    first
      .replace(/^[A-Z][A-Za-z ]* Error: /, '')
      // Guesses at what else there is would tell names that the caller may not see.
      .replace(/\n*(?:Did you mean|Candidate tables)[^\n]*/g, '')
      .replace(/(?<![\w/])(?:\/[\w.@-]+){2,}/g, '<file>')
      .replace(/__tabularium\w*/g, '<engine>')
      .trim()
      .slice(0, 2000)
  );
}
