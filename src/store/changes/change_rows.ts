// The rows of the table `changes`, in the order of the commits, and the current contents of the rows that a change names.
import { type Kysely, sql, type Transaction } from 'kysely';
import { visible } from '../index_conditions.ts';
import type { Schema } from '../schema.ts';
import { type Change, type ChangedObject, type ChangeNotice, noticeOf } from './change.ts';

/** Maximum number of rows in one statement. */
const rowsPerStatementMax = 500;

export interface StoredChange {
  readonly position: number;
  readonly notice: ChangeNotice;
}

/**
 * A reader continues after the last position that it has read, so no transaction may commit a lower one afterwards. SQLite runs one
 * writing transaction at a time. A store that runs several has to take a lock here, until the end of the transaction, before it takes
 * positions from its sequence (PostgreSQL: pg_advisory_xact_lock, which is released after the rows are visible); these are the last
 * statements of the transaction, so the lock is held for the commit only. A counter in a row would order them too, but makes
 * concurrent serializable transactions fail. Positions of a transaction that was rolled back are gaps, which nobody waits for.
 * @returns the positions, in the order of the changes.
 */
export async function writeChanges(
  tx: Transaction<Schema>,
  changes: readonly Change[],
  by: { readonly serverId: string; readonly at: number },
): Promise<number[]> {
  const positions: number[] = [];
  for (let start = 0; start < changes.length; start += rowsPerStatementMax) {
    const rows = changes.slice(start, start + rowsPerStatementMax).map((change) => ({
      server_id: by.serverId,
      written_at: by.at,
      kind: change.kind,
      notice: JSON.stringify(noticeOf(change)),
    }));
    const written = await tx.insertInto('changes').values(rows).returning('position').execute();
    positions.push(...written.map(({ position }) => position));
  }
  return positions.sort((a, b) => a - b);
}

/** The table always has a row: the newest one is never deleted. */
export async function lastPosition(db: Kysely<Schema>): Promise<number> {
  const { position } = await db
    .selectFrom('changes')
    .select((e) => e.fn.max('position').as('position'))
    .executeTakeFirstOrThrow();
  return position;
}

/** The first rows after a position; undefined if the row at that position was deleted, and others perhaps with it. */
export async function readChanges(
  db: Kysely<Schema>,
  after: number,
  limit: number,
): Promise<readonly StoredChange[] | undefined> {
  const [last, ...rows] = await db
    .selectFrom('changes')
    .select(['position', 'notice'])
    .where('position', '>=', after)
    .orderBy('position')
    .limit(limit + 1)
    .execute();
  if (last?.position !== after) return undefined;
  return rows.map(({ position, notice }) => ({ position, notice: JSON.parse(notice) as ChangeNotice }));
}

/**
 * Deletes the oldest rows: those written before `before`, and those beyond `rowsMax`. Never rows in the middle, because a reader notices
 * only that the last row that it has read is missing.
 */
export async function deleteOldChanges(
  db: Kysely<Schema>,
  { before, rowsMax }: { readonly before: number; readonly rowsMax: number },
): Promise<void> {
  const newest = await lastPosition(db);
  const { expired } = await db
    .selectFrom('changes')
    .select((e) => e.fn.max<number | null>('position').as('expired'))
    .where('written_at', '<', before)
    .executeTakeFirstOrThrow();
  const last = Math.min(newest - 1, Math.max(expired ?? 0, newest - rowsMax));
  await db.deleteFrom('changes').where('position', '<=', last).execute();
}

/** The changes with the contents that their rows have now. */
export async function readCurrent(db: Kysely<Schema>, notices: readonly ChangeNotice[]): Promise<Change[]> {
  const objects = await readObjects(
    db,
    notices.flatMap((notice) => (notice.kind === 'object' ? notice.objectId : [])),
  );
  const changes: Change[] = [];
  for (const notice of notices) {
    if (notice.kind === 'object') changes.push({ ...notice, object: objects.get(notice.objectId) });
    else if (notice.kind === 'grant') changes.push({ ...notice, grant: await readGrant(db, notice) });
    else if (notice.kind === 'members') changes.push({ ...notice, userIds: await readMembers(db, notice.roleId) });
    else if (notice.kind === 'token') changes.push({ ...notice, token: await readToken(db, notice.tokenId) });
    else changes.push(notice);
  }
  return changes;
}

async function readObjects(db: Kysely<Schema>, ids: readonly string[]): Promise<Map<string, ChangedObject>> {
  const found = new Map<string, ChangedObject>();
  for (let start = 0; start < ids.length; start += rowsPerStatementMax) {
    const rows = await db
      .selectFrom('objects')
      .select(['id', 'name', 'state', visible.as('is_visible')])
      // The specs of tables can be large, and nobody follows them.
      .select(sql<string | null>`case when category = 'users' then spec end`.as('spec'))
      .where('id', 'in', ids.slice(start, start + rowsPerStatementMax))
      .execute();
    for (const { id, name, state, is_visible, spec } of rows)
      found.set(id, {
        name,
        isVisible: Boolean(is_visible),
        isBlocked: state === 'blocked',
        spec: spec ?? undefined,
      });
  }
  return found;
}

const readGrant = (db: Kysely<Schema>, { granteeId, grantId }: { granteeId: string; grantId: string }) =>
  db
    .selectFrom('grants')
    .selectAll()
    .where('grantee_id', '=', granteeId)
    .where('grant_id', '=', grantId)
    .executeTakeFirst();

async function readMembers(db: Kysely<Schema>, roleId: string): Promise<string[]> {
  const rows = await db.selectFrom('role_members').select('user_id').where('role_id', '=', roleId).execute();
  return rows.map(({ user_id }) => user_id);
}

const readToken = (db: Kysely<Schema>, tokenId: string) =>
  db.selectFrom('tokens').selectAll().where('token_id', '=', tokenId).executeTakeFirst();
