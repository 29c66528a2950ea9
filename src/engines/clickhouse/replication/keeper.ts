// What Keeper has of the replicas of a table, asked through a server.
import type { ClickHouseServer } from '../connection/server.ts';
import { quoteLiteral } from '../sql/identifiers.ts';
import { isMissingNode } from './server_errors.ts';

/** The names of the nodes below a path; none if the path does not exist. Throws if Keeper cannot be asked. */
export const childrenInKeeper = (server: ClickHouseServer, path: string, timeoutMs: number): Promise<string[]> =>
  namesInKeeper(server, `path = ${quoteLiteral(path)}`, timeoutMs);

/** Of the nodes below a path, those that have nodes below them. */
export const parentsInKeeper = (server: ClickHouseServer, path: string, timeoutMs: number): Promise<string[]> =>
  namesInKeeper(server, `path = ${quoteLiteral(path)} AND numChildren > 0`, timeoutMs);

async function namesInKeeper(server: ClickHouseServer, where: string, timeoutMs: number): Promise<string[]> {
  const sql = `SELECT name FROM system.zookeeper WHERE ${where}`;
  try {
    const rows = await server.rows<{ name: string }>({ sql, timeoutMs });
    return rows.map(({ name }) => name);
  } catch (error) {
    if (isMissingNode(error)) return [];
    throw error;
  }
}

/** The replicas that have registered on a path and were not dropped, whether they live or not. */
export const replicasInKeeper = (server: ClickHouseServer, path: string, timeoutMs: number): Promise<string[]> =>
  childrenInKeeper(server, `${path}/replicas`, timeoutMs);

/** The parts that a replica has or is about to fetch, as Keeper knows it, whether it lives or not. */
export const partsInKeeper = (
  server: ClickHouseServer,
  path: string,
  replica: string,
  timeoutMs: number,
): Promise<string[]> => childrenInKeeper(server, `${path}/replicas/${replica}/parts`, timeoutMs);

/** The parts that any other replica of the shard has, also one that is down. */
export async function partsOfOthersInKeeper(
  server: ClickHouseServer,
  path: string,
  replica: string,
  timeoutMs: number,
): Promise<string[]> {
  const others = (await replicasInKeeper(server, path, timeoutMs)).filter((name) => name !== replica);
  return (await Promise.all(others.map((name) => partsInKeeper(server, path, name, timeoutMs)))).flat();
}

/** The node by which a replica says that it is active: it ends with the session that made it. */
export async function activeNode(
  server: ClickHouseServer,
  path: string,
  replica: string,
  timeoutMs: number,
): Promise<{ readonly session: string; readonly createdAtSeconds: number } | undefined> {
  const where = `path = ${quoteLiteral(`${path}/replicas/${replica}`)} AND name = 'is_active'`;
  const sql = `SELECT toString(ephemeralOwner) AS session, toUInt32(ctime) AS created FROM system.zookeeper WHERE ${where}`;
  const [node] = await server.rows<{ session: string; created: number }>({ sql, timeoutMs });
  return node && { session: node.session, createdAtSeconds: node.created };
}

/** The path of a replicated table; undefined if it is none. */
export async function pathInKeeper(
  server: ClickHouseServer,
  { database, table }: { readonly database: string; readonly table: string },
  timeoutMs: number,
): Promise<string | undefined> {
  const where = `database = ${quoteLiteral(database)} AND table = ${quoteLiteral(table)}`;
  const sql = `SELECT zookeeper_path AS path FROM system.replicas WHERE ${where}`;
  return (await server.rows<{ path: string }>({ sql, timeoutMs }))[0]?.path;
}

/** Whether a mutation was begun that has this text in its command, and was not ended so long ago that it is forgotten. */
export async function hasMutationInKeeper(
  server: ClickHouseServer,
  path: string,
  text: string,
  timeoutMs: number,
): Promise<boolean> {
  const where = `path = ${quoteLiteral(`${path}/mutations`)} AND position(value, ${quoteLiteral(text)}) > 0`;
  const sql = `SELECT 1 AS found FROM system.zookeeper WHERE ${where} LIMIT 1`;
  return (await server.rows({ sql, timeoutMs })).length > 0;
}
