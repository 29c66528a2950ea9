// The parts of the scenarios of interrupted changes: their type, the tables that they use, and how those are created.
import { statementWaitSeconds } from '../../deadline.ts';
import { type Answer, type Api, isAcknowledged, type Request } from '../injection/api.ts';
import { quoted } from './agreement.ts';
import { type Expected, type TableState, uriOfPath, type World } from './expectation.ts';

export interface Scenario {
  readonly name: string;
  /** Creates what the request needs; `id` is part of every name. */
  readonly prepare: (api: Api, id: string) => Promise<void>;
  readonly request: (id: string) => Request | Promise<Request>;
  readonly before: (id: string) => Expected;
  readonly after: (id: string) => Expected;
  /** The response to a second request after the first was applied; absent: it can be repeated with the same outcome. */
  readonly repeatCondition?: string;
  /** Affects so many rows that a task does it. */
  readonly isLarge?: boolean;
  /** The request is refused with this code in any case. */
  readonly refusal?: string;
  /** A task does it: it has more steps than a change alone. */
  readonly isTask?: boolean;
  /** It calls the object store or the page. */
  readonly usesServices?: boolean;
  /** Instead of the request: applies it, once for each id however often it is called, and waits for it. */
  readonly requestAgain?: (world: ClockedWorld, id: string) => Promise<Answer>;
  /** Other differences from the expected state afterwards. */
  readonly extraDifferences?: (world: World, id: string) => Promise<string[]>;
}

/** The clock of schedules, of all servers of a process: it advances by a minute for each schedule that is to run. */
export const scheduleClock = { ms: Date.parse('2026-01-31T10:00:30Z') };

/** A server whose schedules use a clock that only advances when it is set. */
export interface ClockedWorld extends World {
  setClock(ms: number): Promise<void>;
}

export async function requireAcknowledged(answer: Promise<Answer>): Promise<Answer> {
  const response = await answer;
  if (!isAcknowledged(response))
    throw new Error(`${response.status} ${response.code}: ${response.message} ${JSON.stringify(response.result)}`);
  return response;
}

export const plainColumns = ['id BIGINT', 'n INT', 'v STRING'];
export const bodyOf = (columns: readonly string[]) =>
  columns.map((column) => ({ name: column.split(' ')[0], type: column.split(' ')[1] }));

export const databaseOf = (id: string) => ['default', `d ${id}`];
export const tableOf = (id: string) => [...databaseOf(id), `t"${id}`];

export async function makeTable(api: Api, path: readonly string[], rows: number, extra: object = {}): Promise<void> {
  const [catalog = '', database = '', table = ''] = path;
  await requireAcknowledged(api.put(uriOfPath([catalog]), {}));
  await requireAcknowledged(api.put(uriOfPath([catalog, database]), {}));
  await requireAcknowledged(
    api.post(`${uriOfPath([catalog, database])}/tables`, { name: table, columns: bodyOf(plainColumns), ...extra }),
  );
  if (rows === 0) return;
  const sql = `INSERT INTO ${quoted(path)} SELECT range, range, 'v' || range FROM range(${rows})`;
  const body = { sql, waitSeconds: statementWaitSeconds() };
  const { status } = await requireAcknowledged(api.post(`${uriOfPath([catalog, database])}/query`, body));
  // A task is acknowledged too, but may insert the rows later or not at all.
  if (status === 202) throw new Error(`not within ${body.waitSeconds} s: ${sql}`);
}

export const tableExists = (path: readonly string[], is: TableState): Expected => [{ path, is }];
export const expectAbsent = (path: readonly string[]): Expected => [{ path, is: 'absent' }];
export const plainColumnsWith = (rows: number): TableState => ({ columns: plainColumns, rows });
