// The codes of servers that say that replication waits for something, not that a statement is wrong.
import { ClickHouseError } from '../connection/clickhouse_error.ts';

/**
 * The same insert can succeed later: read-only settings while a server starts, no Keeper, a read-only replica, too few live replicas, an
 * earlier insert without quorum, a quorum not reached in time, errors of Keeper.
 */
const waitingCodes: ReadonlySet<number> = new Set([164, 225, 242, 244, 285, 286, 319, 999]);
/** The server has no such table or database, or is dropping the table. */
const absentCodes: ReadonlySet<number> = new Set([60, 81, 218]);
const keeperCode = 999;
const killedCode = 394;

/** The number of a server's error; undefined for any other error, such as a lost connection. */
export const serverCodeOf = (error: unknown): number | undefined =>
  error instanceof ClickHouseError ? error.code : undefined;

export const isWaiting = (error: unknown): boolean => waitingCodes.has(serverCodeOf(error) ?? 0);

/** A node of Keeper does not exist, which is an error where its children are listed. */
export const isMissingNode = (error: unknown): boolean =>
  serverCodeOf(error) === keeperCode && /no node|znonode/i.test((error as Error).message);

/** The server that was asked lacks the table, as one that has lost its disk does. */
export const isAbsent = (error: unknown): boolean => absentCodes.has(serverCodeOf(error) ?? 0);

/** A decommission of the server, or its operator, has ended the statement. */
export const isKilled = (error: unknown): boolean => serverCodeOf(error) === killedCode;
