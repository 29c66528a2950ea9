// Very many users, roles, grants and tokens, written into the metadata store of a stopped server in the form in which src/access
// writes them. The grants are on tables that filled_store.ts created; the token of each user is known in advance.
import { join } from 'node:path';
import { digestOfToken } from '../../src/access/authentication/authenticator.ts';
import { grantPath, objectIdsOf } from '../../src/access/authorization/grant_scopes.ts';
import { grantIdOf } from '../../src/access/authorization/grants.ts';
import { newId } from '../../src/model/ids.ts';
import { foldName } from '../../src/model/names.ts';
import { openSqliteStore, storeFileName } from '../../src/store/sqlite/sqlite_store.ts';
import type { Store } from '../../src/store/store.ts';
import { filledDatabase } from './filled_store.ts';

export interface UserGroup {
  /** Prefix of the names of its users and roles. */
  readonly name: string;
  readonly users: number;
  readonly roles: number;
  readonly rolesPerUser: number;
  /** The number of tables with a `read` grant. */
  readonly grantsPerUser: number;
  /** The same for each role. */
  readonly grantsPerRole: number;
  /** How many of these roles also have a grant on the whole database: the first, all or none. */
  readonly onDatabase: 'first role' | 'all roles' | 'none';
}

/** For statements, which take at most 32,766 parameters. */
const rowsPerInsert = 1000;
/** Selects tables deterministically, so that every run requests the same ones. */
const stride = 7919;

/** `{name}` is the number of the user, padded to six digits. */
export const secretOf = (crowd: string, number = '{name}'): string => `tbl_pat_bench_${crowd}_${number}`;
export const userName = (crowd: string, n: number): string => `${crowd}_user_${String(n).padStart(6, '0')}`;

export async function fillAccess(dataDirectory: string, crowds: readonly UserGroup[]): Promise<void> {
  const store = await openSqliteStore({ file: join(dataDirectory, storeFileName) });
  try {
    const tables = await tablePaths(store);
    for (const crowd of crowds) await fillCrowd(store, crowd, tables);
  } finally {
    await store.close();
  }
}

/** Paths of ids. */
async function tablePaths({ db }: Store): Promise<readonly string[][]> {
  const database = await db
    .selectFrom('objects')
    .select(['id', 'parent_id'])
    .where('category', '=', 'databases')
    .where('name', '=', filledDatabase)
    .executeTakeFirstOrThrow();
  const tables = await db
    .selectFrom('objects')
    .select('id')
    .where('parent_id', '=', database.id)
    .where('category', '=', 'tables')
    .orderBy('name')
    .execute();
  return tables.map(({ id }) => grantPath('catalogs', [database.parent_id as string, database.id, id]));
}

async function fillCrowd(store: Store, crowd: UserGroup, tables: readonly string[][]): Promise<void> {
  const { name, rolesPerUser, grantsPerUser, grantsPerRole, onDatabase } = crowd;
  const users = Array.from({ length: crowd.users }, (_, n) => ({ id: newId(), name: userName(name, n) }));
  const roles = Array.from({ length: crowd.roles }, (_, n) => ({ id: newId(), name: `${name}_role_${n}` }));
  const tableAt = (n: number) => tables[(n * stride) % tables.length] as string[];
  const grants: ReturnType<typeof grantRow>[] = [];
  const grantTables = (granteeId: string, from: number, count: number) => {
    for (let i = 0; i < count; i++) grants.push(grantRow(granteeId, tableAt(from + i)));
  };
  for (const [n, { id }] of users.entries()) grantTables(id, n * grantsPerUser, grantsPerUser);
  for (const [n, { id }] of roles.entries()) {
    grantTables(id, n * grantsPerRole, grantsPerRole);
    if (onDatabase === 'all roles' || (onDatabase === 'first role' && n === 0))
      grants.push(grantRow(id, (tables[0] as string[]).slice(0, -1)));
  }
  const members = users.flatMap(({ id }, n) =>
    Array.from({ length: rolesPerUser }, (_, i) => ({
      user_id: id,
      role_id: roles[(n + i * Math.max(1, Math.floor(roles.length / rolesPerUser))) % roles.length]?.id as string,
    })),
  );
  await store.transaction(async (tx) => {
    const root = await tx.selectFrom('objects').selectAll().where('id', '=', 'root').executeTakeFirstOrThrow();
    const objects = [...users, ...roles].map((principal, n) => ({
      ...root,
      ...principal,
      category: n < users.length ? 'users' : 'roles',
      folded_name: foldName(principal.name),
    }));
    for (const rows of parts(objects)) await tx.insertInto('objects').values(rows).execute();
    for (const rows of parts(members)) await tx.insertInto('role_members').values(rows).execute();
    for (const rows of parts(grants)) await tx.insertInto('grants').values(rows).execute();
    const tokens = users.map((user, n) => tokenRow(user.id, secretOf(name, String(n).padStart(6, '0'))));
    for (const rows of parts(tokens)) await tx.insertInto('tokens').values(rows).execute();
  });
}

function* parts<T>(rows: readonly T[]): Generator<readonly T[]> {
  for (let start = 0; start < rows.length; start += rowsPerInsert) yield rows.slice(start, start + rowsPerInsert);
}

function grantRow(granteeId: string, path: readonly string[]) {
  return {
    grant_id: grantIdOf('read', path),
    grantee_id: granteeId,
    privilege: 'read',
    on_id: path.at(-1) as string,
    object_id: objectIdsOf(path).at(-1) ?? null,
    path: JSON.stringify(path),
    created_at: Date.now(),
    created_by: 'root',
  };
}

function tokenRow(userId: string, secret: string) {
  return {
    token_id: newId(),
    user_id: userId,
    name: 'bench',
    folded_name: 'bench',
    digest: digestOfToken(secret),
    scopes: null,
    expires_at: null,
    last_used_at: null,
    created_at: Date.now(),
    created_by: 'root',
  };
}
