// The conditions of partial indexes. Queries use the same literals, without bound parameters: otherwise SQLite does not use the index.
import { sql } from 'kysely';

/** Objects that readers see. */
export const visible = sql<boolean>`state in ('ready', 'altering', 'blocked')`;

/** Tasks. */
export const isQueued = sql<boolean>`place is not null`;
export const isPaused = sql<boolean>`place is null and state = 'pending' and waits_for = 0`;
export const isRunning = sql<boolean>`state in ('running', 'cancelling')`;
export const hasPendingNotification = sql<boolean>`notify_at is not null`;

/** Schedules. */
export const hasNextRun = sql<boolean>`next_at is not null`;

/** Statements that have not ended. */
export const runsOnServer = sql<boolean>`server_id is not null`;
