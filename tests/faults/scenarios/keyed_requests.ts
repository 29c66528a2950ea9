// The kinds of requests with an idempotency key that are repeated after a death: the preparation of each, the request, and whether
// it took effect exactly once. All of them work in the database `k` of the catalog `default`.
import { statementWaitSeconds } from '../../deadline.ts';
import type { Answer, Api, Request } from '../injection/api.ts';
import { pathOf } from '../injection/api.ts';
import { notesFile } from './scenario_flags.ts';
import { requireAcknowledged } from './scenario_parts.ts';

export interface KeyedKind {
  readonly name: string;
  readonly prepare: (api: Api, id: string) => Promise<void>;
  readonly request: (id: string) => Request;
  /** The calls of the engine that commit its work, by the beginning of their names. */
  readonly commits: readonly string[];
  /** What the response must contain. */
  readonly answer: (answer: Answer, id: string) => boolean;
  /** Differences from having taken effect exactly once. */
  readonly wrong: (api: Api, id: string) => Promise<string | undefined>;
  /** A task does the work, after the response. */
  readonly isTask?: true;
}

const database = ['databases', 'k'] as const;
const nameOf = (id: string) => `t ${id}`;
const table = (id: string, ...rest: string[]) => pathOf(...database, 'tables', nameOf(id), ...rest);
const quotedName = (id: string) => `"${nameOf(id)}"`;

async function makeTable(api: Api, id: string): Promise<void> {
  await requireAcknowledged(api.put(pathOf(...database), {}));
  const columns = [
    { name: 'a', type: 'INT' },
    { name: 'v', type: 'INT' },
  ];
  await requireAcknowledged(api.post(pathOf(...database, 'tables'), { name: nameOf(id), columns }));
  await requireAcknowledged(
    api.post(table(id, 'rows'), {
      rows: [
        [1, 10],
        [2, 20],
        [3, 30],
      ],
    }),
  );
}

async function rowsOf(api: Api, sql: string): Promise<unknown> {
  const answer = await requireAcknowledged(
    api.post(pathOf(...database, 'query'), { sql, waitSeconds: statementWaitSeconds() }),
  );
  return answer.result.rows;
}

/** The expected count and sum of the values. */
const sums =
  (count: number, sum: number): KeyedKind['wrong'] =>
  async (api, id) => {
    const counts = JSON.stringify(await rowsOf(api, `SELECT count(*), sum(v)::BIGINT FROM ${quotedName(id)}`));
    return counts === `[[${count},${sum}]]` ? undefined : `count and sum are ${counts}, not [[${count},${sum}]]`;
  };

const changesRows = (rowCount: number) => (answer: Answer) =>
  answer.status === 200 && answer.result.rowCount === rowCount;
const query = (id: string, sql: string, more: object = {}): Request => ({
  method: 'POST',
  path: pathOf(...database, 'query'),
  body: { sql: sql.replaceAll('$t', quotedName(id)), ...more },
});

/** An object according to its record. */
const recordIs =
  (path: (id: string) => string, expected: Readonly<Record<string, unknown>>): KeyedKind['wrong'] =>
  async (api, id) => {
    const { status, code, result } = await api.get(path(id));
    if (status !== 200) return `GET ${path(id)}: ${status} ${code}`;
    const different = Object.entries(expected).find(([name, value]) => result[name] !== value);
    return (
      different && `${different[0]} is ${JSON.stringify(result[different[0]])}, not ${JSON.stringify(different[1])}`
    );
  };

const isGone =
  (path: (id: string) => string): KeyedKind['wrong'] =>
  async (api, id) => {
    const { status, code } = await api.get(path(id));
    return code === 'OBJECT_NOT_FOUND' ? undefined : `GET ${path(id)}: ${status} ${code}`;
  };

const taskOnce =
  (count: number, sum: number): KeyedKind['wrong'] =>
  async (api, id) => {
    const tasks = await api.endOfTasks(30_000);
    const tasksOfRequest = tasks.filter(({ target, request }) => `${target}${JSON.stringify(request)}`.includes(id));
    if (tasksOfRequest.length !== 1) return `${tasksOfRequest.length} tasks`;
    if (tasksOfRequest[0]?.state !== 'succeeded')
      return `its task ended ${tasksOfRequest[0]?.state}: ${JSON.stringify(tasksOfRequest[0]?.error)}`;
    return sums(count, sum)(api, id);
  };

const dml: KeyedKind[] = [
  {
    name: 'rows',
    prepare: makeTable,
    request: (id) => ({
      method: 'POST',
      path: table(id, 'rows'),
      body: {
        rows: [
          [4, 40],
          [5, 50],
        ],
      },
    }),
    commits: ['insertRows'],
    answer: ({ status, result }) => status === 201 && result.rowCount === 2,
    wrong: sums(5, 150),
  },
  {
    name: 'INSERT as SQL',
    prepare: makeTable,
    request: (id) => query(id, 'INSERT INTO $t SELECT a + 10, v FROM $t'),
    commits: ['execute'],
    answer: changesRows(3),
    wrong: sums(6, 120),
  },
  {
    name: 'UPDATE with RETURNING',
    prepare: makeTable,
    request: (id) => query(id, 'UPDATE $t SET v = v + 1 RETURNING v'),
    commits: ['execute'],
    answer: changesRows(3),
    wrong: sums(3, 63),
  },
  {
    name: 'update',
    prepare: makeTable,
    request: (id) => ({ method: 'POST', path: table(id, 'update'), body: { set: { v: 'v * 2' }, where: 'a > 1' } }),
    commits: ['execute'],
    answer: changesRows(2),
    wrong: sums(3, 110),
  },
  {
    name: 'delete_rows',
    prepare: makeTable,
    request: (id) => ({ method: 'POST', path: table(id, 'delete_rows'), body: { where: 'a > 1' } }),
    commits: ['execute'],
    answer: changesRows(2),
    wrong: sums(1, 10),
  },
  {
    name: 'insert_select',
    prepare: makeTable,
    request: (id) => ({
      method: 'POST',
      path: table(id, 'insert_select'),
      body: { sql: `SELECT a, v FROM ${quotedName(id)} WHERE a < 3` },
    }),
    commits: ['execute'],
    answer: changesRows(2),
    wrong: sums(5, 90),
  },
];

const tasks: KeyedKind[] = [
  {
    name: 'load',
    prepare: makeTable,
    request: (id) => ({
      method: 'POST',
      path: table(id, 'load'),
      body: {
        source: { path: notesFile },
        columns: [
          { name: 'a', expression: '7' },
          { name: 'v', expression: '100' },
        ],
      },
    }),
    commits: ['load'],
    answer: ({ status }) => status === 202,
    wrong: taskOnce(5, 260),
    isTask: true,
  },
  {
    name: 'a statement as a task',
    prepare: makeTable,
    request: (id) => query(id, 'INSERT INTO $t SELECT a, v FROM $t', { waitSeconds: 0 }),
    commits: ['execute'],
    answer: ({ status }) => status === 202,
    wrong: taskOnce(6, 120),
    isTask: true,
  },
];

const becomesTask: KeyedKind = {
  name: 'a statement that becomes a task',
  prepare: makeTable,
  request: (id) =>
    query(id, 'INSERT INTO $t SELECT a, v FROM $t WHERE (SELECT sum(range) FROM range(30000000)) > 0', {
      waitSeconds: 0.001,
    }),
  commits: ['execute'],
  answer: ({ status, result }) => status === 202 || (status === 200 && result.rowCount === 3),
  // If only the task can determine the outcome, it has ended before the check.
  wrong: async (api, id) => {
    await api.endOfTasks(30_000);
    return sums(6, 120)(api, id);
  },
  isTask: true,
};

const changes: KeyedKind[] = [
  {
    name: 'create a table',
    prepare: async (api) => void (await requireAcknowledged(api.put(pathOf(...database), {}))),
    request: (id) => ({
      method: 'POST',
      path: pathOf(...database, 'tables'),
      body: { name: nameOf(id), columns: [{ name: 'a', type: 'INT' }] },
    }),
    commits: ['apply createTable'],
    answer: ({ status, result }) => status === 201 && result.created === true,
    wrong: recordIs(table, { version: 1, state: 'ready' }),
  },
  {
    name: 'create a table by PUT',
    prepare: async (api) => void (await requireAcknowledged(api.put(pathOf(...database), {}))),
    request: (id) => ({ method: 'PUT', path: table(id), body: { columns: [{ name: 'a', type: 'INT' }] } }),
    commits: ['apply createTable'],
    answer: ({ status, result }) => status === 201 && result.created === true,
    wrong: recordIs(table, { version: 1 }),
  },
  {
    name: 'create a database',
    prepare: async () => {},
    request: (id) => ({ method: 'POST', path: pathOf('databases'), body: { name: nameOf(id) } }),
    commits: ['apply createDatabase'],
    answer: ({ status, result }) => status === 201 && result.created === true,
    wrong: recordIs((id) => pathOf('databases', nameOf(id)), { version: 1 }),
  },
  {
    name: 'create a view',
    prepare: makeTable,
    request: (id) => ({
      method: 'POST',
      path: pathOf(...database, 'views'),
      body: { name: `v ${id}`, sql: `SELECT a FROM ${quotedName(id)}` },
    }),
    commits: ['apply createView'],
    answer: ({ status, result }) => status === 201 && result.created === true,
    wrong: recordIs((id) => pathOf(...database, 'views', `v ${id}`), { version: 1 }),
  },
  {
    name: 'add a column',
    prepare: makeTable,
    request: (id) => ({ method: 'POST', path: table(id, 'columns'), body: { name: 'c', type: 'INT' } }),
    commits: ['apply alterTable'],
    answer: ({ status, result }) => status === 201 && result.name === 'c',
    wrong: recordIs(table, { version: 2 }),
  },
  {
    name: 'widen a column by PATCH',
    prepare: makeTable,
    request: (id) => ({ method: 'PATCH', path: table(id, 'columns', 'a'), body: { type: 'BIGINT' } }),
    commits: ['apply alterTable'],
    answer: ({ status, result }) => status === 200 && result.type === 'BIGINT',
    wrong: recordIs(table, { version: 2 }),
  },
  {
    name: 'rename a table',
    prepare: makeTable,
    request: (id) => ({ method: 'POST', path: table(id, 'rename'), body: { newName: `r ${id}` } }),
    commits: ['apply renameTable'],
    answer: ({ status, result }, id) => status === 200 && result.name === `r ${id}`,
    wrong: recordIs((id) => pathOf(...database, 'tables', `r ${id}`), { version: 2 }),
  },
  {
    name: 'truncate a table',
    prepare: makeTable,
    request: (id) => ({ method: 'POST', path: table(id, 'truncate'), body: {} }),
    commits: ['apply truncateTable'],
    answer: ({ status }) => status === 200,
    wrong: async (api, id) => {
      const counts = JSON.stringify(await rowsOf(api, `SELECT count(*) FROM ${quotedName(id)}`));
      return counts === '[[0]]' ? undefined : `rows: ${counts}`;
    },
  },
  {
    name: 'drop a table',
    prepare: makeTable,
    request: (id) => ({ method: 'DELETE', path: table(id) }),
    commits: ['apply hideTable'],
    answer: ({ status, result }) => status === 200 && result.deleted === true,
    wrong: isGone(table),
  },
  {
    name: 'drop a table for good',
    prepare: makeTable,
    request: (id) => ({ method: 'DELETE', path: `${table(id)}?purge=true` }),
    commits: ['apply dropTable'],
    answer: ({ status, result }) => status === 200 && result.deleted === true,
    wrong: isGone(table),
  },
  {
    name: 'undrop a table',
    prepare: async (api, id) => {
      await makeTable(api, id);
      await requireAcknowledged(api.delete(table(id)));
    },
    request: (id) => ({
      method: 'POST',
      path: pathOf(...database, 'tables', 'undrop'),
      body: { name: nameOf(id) },
    }),
    commits: ['apply restoreTable'],
    answer: ({ status }) => status === 200,
    wrong: sums(3, 60),
  },
];

export const keyedKinds: readonly KeyedKind[] = [...dml, ...tasks, becomesTask, ...changes];
