// Databases, tables and views for the tests of views, by REST.
import { type Reply, type TestServer, uri } from '../../server.ts';

export const columns = [
  { name: 'id', type: 'BIGINT' },
  { name: 'n', type: 'INT' },
];

export const uriIn = (path: string, ...rest: readonly string[]) => [path, ...rest.map(encodeURIComponent)].join('/');
export const names = (reply: Reply, category: string) => reply.at<{ name: string }[]>(category).map(({ name }) => name);
/** The full URI of a path under /databases, as in records. */
export const inDefault = (path: string) => path.replace('/api/v2/', '/api/v2/catalogs/default/');

export function viewsOn(server: TestServer) {
  async function table(path: string, name: string, rows = 0): Promise<void> {
    (await server.post(`${path}/tables`, { name, columns })).is(201);
    const rowValues = Array.from({ length: rows }, (_, i) => [i, i * 10]);
    if (rows > 0) (await server.post(`${path}/tables/${name}/rows`, { rows: rowValues })).is(201);
  }
  return {
    table,
    /** Creates a database with the table `t` of three rows. */
    async database(name: string): Promise<string> {
      const path = uri`/databases/${name}`;
      (await server.put(path)).is(201);
      await table(path, 't', 3);
      return path;
    },
    view: (path: string, name: string, sql: string) => server.put(uriIn(path, 'views', name), { sql }),
    rows: async (path: string, sql: string): Promise<unknown[][]> =>
      (await server.post(`${path}/query`, { sql })).is(200).at('rows'),
  };
}
