// The handlers of `rows` of a table: inserts, which are all or nothing, and paged reads. Other reads use SQL.
import assert from 'node:assert/strict';
import { rowsApi } from '../../api/tables/rows.ts';
import { isRowSource } from '../../query/rows/row_source.ts';
import type { Category } from '../../standard/endpoint.ts';
import { uriOf } from '../../standard/paths.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { created, listed } from '../records/outcomes.ts';

/** `rowsBodyBytesMax`: the maximum size of the body of an insert. */
export function rowsCategory({ rowsBodyBytesMax }: { readonly rowsBodyBytesMax: number }): Category<Context> {
  const { endpoints } = rowsApi;
  const create = { ...endpoints.create, bodyBytesMax: rowsBodyBytesMax };
  return implement(
    { ...rowsApi, endpoints: { ...endpoints, create } },
    {
      list: async ({ segments, page }, context) => {
        const { rows, next } = await context.rows.page(segments, page, context.call);
        return listed(rows, next);
      },
      create: async ({ segments, body }, context) => {
        const { rows }: { readonly rows: unknown } = body;
        assert(isRowSource(rows), 'the body has its rows as a source');
        const rowCount = await context.rows.insert(segments, rows, context.call);
        const uri = `${uriOf(context.call.version, segments)}/rows`;
        return created({ rowCount, uri }, true);
      },
    },
  );
}
