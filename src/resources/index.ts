// Every category there is, in the order in which documents list them.
import type { Category } from '../standard/endpoint.ts';
import { backends } from './backends.ts';
import { catalogs } from './catalogs.ts';
import { columns } from './columns.ts';
import type { Context } from './context.ts';
import { databases } from './databases.ts';
import { pages } from './pages.ts';
import { queries } from './queries.ts';
import { replicas } from './replicas.ts';
import { rowsCategory } from './rows.ts';
import { tables } from './tables.ts';
import { tablets } from './tablets.ts';
import { tasks } from './tasks.ts';
import { warehouses } from './warehouses.ts';

/** `rowsBodyBytesMax`: the largest body of an insert. */
export function categoriesWith(limits: { readonly rowsBodyBytesMax: number }): readonly Category<Context>[] {
  return [
    catalogs,
    databases,
    tables,
    columns,
    rowsCategory(limits),
    tablets,
    replicas,
    warehouses,
    backends,
    queries,
    tasks,
    pages,
  ];
}
