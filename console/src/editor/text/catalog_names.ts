// The names that completion offers, read through the query cache, so that typing asks for each of them once.

import { browsedDatabasesOf } from '../../app/browsed_databases.ts';
import { queryClient } from '../../app/queries.ts';
import { client } from '../../app/session.ts';
import type { Place } from '../../results/run/messages.ts';
import type { ColumnName, NamesOfCatalog } from './sql_completion.ts';

const staleTime = 60_000;
const pageSize = 100;

const startPattern = (prefix: string): string => `${prefix.replaceAll(/[\\%_]/g, '\\$&')}%`;

export function namesFrom({ catalog, database: own }: Place): NamesOfCatalog {
  const databasesOf = (name: string) => client.catalogs(name).databases;
  return {
    objects: (prefix, database = own) =>
      database === undefined
        ? Promise.resolve([])
        : queryClient.fetchQuery({
            queryKey: ['tables', catalog, database, 'startingWith', prefix.toLowerCase()],
            staleTime,
            queryFn: async ({ signal }) => {
              const body = { namePattern: startPattern(prefix), pageSize };
              const { tables, views } = databasesOf(catalog)(database);
              const [foundTables, foundViews] = await Promise.all([
                tables.search(body, { signal }).page(),
                views.search(body, { signal }).page(),
              ]);
              return [
                ...foundTables.items.map(({ name }) => ({ name, kind: 'table' as const })),
                ...foundViews.items.map(({ name }) => ({ name, kind: 'view' as const })),
              ];
            },
          }),
    databases: async (prefix) => {
      const all = await queryClient.fetchQuery({
        queryKey: ['databases', catalog, 'browsed'],
        staleTime,
        queryFn: ({ signal }) => browsedDatabasesOf(catalog, signal),
      });
      return all.filter((name) => name.toLowerCase().startsWith(prefix.toLowerCase()));
    },
    columns: (path) => {
      const [table, database = own, inCatalog = catalog] = path.toReversed();
      if (table === undefined || database === undefined) return Promise.resolve(undefined);
      return queryClient
        .fetchQuery({
          queryKey: ['columns', inCatalog, database, table],
          staleTime,
          queryFn: async ({ signal }): Promise<readonly ColumnName[] | undefined> => {
            const { tables, views } = databasesOf(inCatalog)(database);
            const options = { signal };
            const found = await tables(table)
              .get(options)
              .catch(() =>
                views(table)
                  .get(options)
                  .catch(() => undefined),
              );
            return found?.columns.map(({ name, type }) => ({ name, type })) ?? [];
          },
        })
        .then((columns) => (columns?.length ? columns : undefined));
    },
  };
}
