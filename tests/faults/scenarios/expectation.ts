// The expected state, compared with everything that could contradict it: the record, the lists, the table in the engine, and its
// number of rows.
import { errors } from '../../../src/client/index.ts';
import { type Api, pathOf } from '../injection/api.ts';
import { quoted } from './agreement.ts';

export interface TableState {
  /** `id BIGINT`, in their order. */
  readonly columns: readonly string[];
  readonly rows: number;
  readonly uniqueKey?: readonly string[];
}

export interface ViewState {
  readonly sql: string;
  readonly columns: readonly string[];
  readonly rows: number;
}

/** A running server, in any process. */
export interface World {
  readonly api: Api;
  /** As in the engine, bypassing all checks; undefined if it has no such table. */
  columnsInEngine(path: readonly string[]): Promise<string[] | undefined>;
}

/** A path of 1 name is a catalog, of 2 a database, of 3 a table or a view. */
export type Expected = readonly {
  readonly path: readonly string[];
  readonly isView?: boolean;
  readonly is: 'there' | 'absent' | TableState | ViewState;
}[];

const categories = ['catalogs', 'databases', 'tables'];

export const uriOfPath = (path: readonly string[], isView = false) =>
  pathOf(...path.flatMap((name, i) => [i === 2 && isView ? 'views' : (categories[i] as string), name]));

export async function expectationDifferences(world: World, expected: Expected): Promise<string[]> {
  const differences: string[] = [];
  for (const { path, is: state, isView } of expected) {
    const { api } = world;
    const report = (difference: string) => differences.push(`${path.join('/')}: ${difference}`);
    const record = await api.get(uriOfPath(path, isView));
    const isListed = await listed(api, path, isView);
    if (state === 'absent') {
      if (record.status !== 404) report(`should be absent, and GET says ${record.status} ${record.code}`);
      if (isListed) report('should be absent, and is in its list');
      if (path.length === 3 && (await world.columnsInEngine(path))) report('should be absent, and the engine has it');
      continue;
    }
    if (record.status !== 200) report(`should be there, and GET says ${record.status} ${record.code}`);
    if (!isListed) report('should be there, and is not in its list');
    if (state === 'there' || record.status !== 200) continue;
    for (const difference of await tableDifferences(world, path, record.result, state)) report(difference);
  }
  return differences;
}

async function tableDifferences(
  world: World,
  path: readonly string[],
  record: Readonly<Record<string, unknown>>,
  state: TableState | ViewState,
): Promise<string[]> {
  const differences: string[] = [];
  const compare = (description: string, actual: unknown, expected: unknown) => {
    if (JSON.stringify(actual) === JSON.stringify(expected)) return;
    differences.push(`${description} should be ${JSON.stringify(expected)} and is ${JSON.stringify(actual)}`);
  };
  if ('sql' in state) compare('query', record.sql, state.sql);
  else {
    compare('state', record.state, 'ready');
    compare('unique key', record.unique_key_constraints, state.uniqueKey ?? []);
  }
  const columns = record.columns as { name: string; type: string }[];
  compare(
    'columns in the record',
    columns.map(({ name, type }) => `${name} ${type}`),
    state.columns,
  );
  compare('columns in the engine', await world.columnsInEngine(path), state.columns);
  const count = await world.api.post(`${uriOfPath(path.slice(0, 2))}/query`, {
    sql: `SELECT count(*) FROM ${quoted(path)}`,
  });
  compare('rows', count.status === 200 ? count.result.rows : count, [[state.rows]]);
  return differences;
}

async function listed({ client }: Api, path: readonly string[], isView = false): Promise<boolean> {
  const [catalog = '', database, name] = path;
  const { databases } = client.catalogs(catalog);
  const { tables, views } = databases(database ?? '');
  const { list } = database === undefined ? client.catalogs : name === undefined ? databases : isView ? views : tables;
  try {
    for await (const object of list({ pageSize: 1000 })) if (object.name === path.at(-1)) return true;
    return false;
  } catch (error) {
    if (error instanceof errors.OBJECT_NOT_FOUND) return false;
    throw error;
  }
}
