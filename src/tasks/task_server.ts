// The server that must run a task: on a shared store, a warehouse with local data belongs to the server that has its data, and so do the
// tasks of its catalogs. Read in the transaction that submits the task.
import type { Kysely } from 'kysely';
import type { CatalogSpec, WarehouseSpec } from '../model/records.ts';
import { segmentsOfUri } from '../standard/paths.ts';
import type { Schema } from '../store/schema.ts';
import type { TaskRequest } from './task.ts';

/** Null: any server. */
export async function serverOfTask(
  db: Kysely<Schema>,
  { target, request }: Pick<TaskRequest, 'target' | 'request'>,
): Promise<string | null> {
  const { catalog } = (request ?? {}) as { readonly catalog?: unknown };
  const [root] = segmentsOfUri(target);
  const name = typeof catalog === 'string' ? catalog : root?.category === 'catalogs' ? root.name : undefined;
  if (name === undefined) return null;
  const spec = await specOf<CatalogSpec>(db, 'catalogs', name);
  return spec ? serverOfWarehouse(db, spec.warehouse) : null;
}

/** Null: any server. */
export async function serverOfWarehouse(db: Kysely<Schema>, warehouse: string): Promise<string | null> {
  return (await specOf<WarehouseSpec>(db, 'warehouses', warehouse))?.serverId ?? null;
}

async function specOf<S>(db: Kysely<Schema>, category: string, name: string): Promise<S | undefined> {
  const row = await db
    .selectFrom('objects')
    .select('spec')
    .where('category', '=', category)
    .where('parent_id', 'is', null)
    .where('name', '=', name)
    .where('state', '!=', 'dropped')
    .executeTakeFirst();
  return row && (JSON.parse(row.spec) as S);
}
