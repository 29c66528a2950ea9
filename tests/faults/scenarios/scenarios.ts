// The changes that are interrupted at every step: the state before, the request, and the state after. Every scenario uses its own
// names, so that one server can run all of them.

import { pathOf } from '../injection/api.ts';
import { quoted } from './agreement.ts';
import { backupScenarios } from './backup_scenarios.ts';
import { type TableState, uriOfPath } from './expectation.ts';
import { loadScenarios } from './load_scenarios.ts';
import {
  bodyOf,
  databaseOf,
  expectAbsent,
  makeTable,
  plainColumns,
  plainColumnsWith,
  requireAcknowledged,
  type Scenario,
  tableExists,
  tableOf,
} from './scenario_parts.ts';
import { viewScenarios } from './view_scenarios.ts';

export { requireAcknowledged, type Scenario } from './scenario_parts.ts';

/** A PATCH of a table of so many rows. */
function patch(name: string, rows: number, body: object, after: TableState, extra?: object): Scenario {
  return {
    name,
    prepare: (api, id) => makeTable(api, tableOf(id), rows, extra),
    request: (id) => ({ method: 'PATCH', path: uriOfPath(tableOf(id)), body }),
    before: (id) => tableExists(tableOf(id), plainColumnsWith(rows)),
    after: (id) => tableExists(tableOf(id), after),
    isLarge: rows === manyRows,
  };
}

const onColumn = (id: string, ...rest: readonly string[]) =>
  pathOf('catalogs', 'default', 'databases', `d ${id}`, 'tables', `t"${id}`, 'columns', ...rest);

const manyRows = 120_000;
const wide = ['id BIGINT', 'n BIGINT', 'v STRING'];

const ofCatalogs: Scenario[] = [
  {
    name: 'create a catalog',
    prepare: async () => {},
    request: (id) => ({ method: 'POST', path: pathOf('catalogs'), body: { name: `c/${id}` } }),
    before: (id) => expectAbsent([`c/${id}`]),
    after: (id) => [{ path: [`c/${id}`], is: 'there' }],
    repeatCondition: 'OBJECT_ALREADY_EXISTS',
  },
  {
    name: 'rename a catalog',
    prepare: (api, id) => makeTable(api, [`c/${id}`, 'd', 't'], 3),
    request: (id) => ({ method: 'POST', path: `${uriOfPath([`c/${id}`])}/rename`, body: { newName: `r/${id}` } }),
    before: (id) => [...expectAbsent([`r/${id}`]), ...tableExists([`c/${id}`, 'd', 't'], plainColumnsWith(3))],
    after: (id) => [...expectAbsent([`c/${id}`]), ...tableExists([`r/${id}`, 'd', 't'], plainColumnsWith(3))],
    repeatCondition: 'OBJECT_NOT_FOUND',
  },
  {
    name: 'drop a catalog and all that is in it',
    prepare: (api, id) => makeTable(api, [`c/${id}`, 'd', 't'], 3),
    request: (id) => ({ method: 'DELETE', path: `${uriOfPath([`c/${id}`])}?cascade=true` }),
    before: (id) => tableExists([`c/${id}`, 'd', 't'], plainColumnsWith(3)),
    after: (id) => [...expectAbsent([`c/${id}`]), ...expectAbsent([`c/${id}`, 'd', 't'])],
  },
  {
    name: 'drop a catalog for good',
    prepare: (api, id) => makeTable(api, [`c/${id}`, 'd', 't'], 3),
    request: (id) => ({ method: 'DELETE', path: `${uriOfPath([`c/${id}`])}?cascade=true&purge=true` }),
    before: (id) => tableExists([`c/${id}`, 'd', 't'], plainColumnsWith(3)),
    after: (id) => [...expectAbsent([`c/${id}`]), ...expectAbsent([`c/${id}`, 'd', 't'])],
  },
  {
    name: 'bring a catalog back under another name',
    prepare: async (api, id) => {
      await makeTable(api, [`c/${id}`, 'd', 't'], 3);
      await requireAcknowledged(api.delete(`${uriOfPath([`c/${id}`])}?cascade=true`));
    },
    request: (id) => ({
      method: 'POST',
      path: `${pathOf('catalogs')}/undrop`,
      body: { name: `c/${id}`, newName: `b/${id}` },
    }),
    before: (id) => [...expectAbsent([`c/${id}`]), ...expectAbsent([`b/${id}`])],
    after: (id) => [...expectAbsent([`c/${id}`]), ...tableExists([`b/${id}`, 'd', 't'], plainColumnsWith(3))],
    repeatCondition: 'OBJECT_NOT_FOUND',
  },
];

const ofDatabases: Scenario[] = [
  {
    name: 'create a database',
    prepare: async () => {},
    request: (id) => ({ method: 'PUT', path: uriOfPath(databaseOf(id)), body: {} }),
    before: (id) => expectAbsent(databaseOf(id)),
    after: (id) => [{ path: databaseOf(id), is: 'there' }],
  },
  ...[3, manyRows].map(
    (rows): Scenario => ({
      name: `rename a database whose table has ${rows} rows`,
      prepare: async (api, id) => {
        await makeTable(api, tableOf(id), rows);
        await makeTable(api, [...databaseOf(id), 'keyed'], 2, { unique_key_constraints: ['n'] });
      },
      request: (id) => ({ method: 'POST', path: `${uriOfPath(databaseOf(id))}/rename`, body: { newName: `e ${id}` } }),
      before: (id) => [
        ...expectAbsent(['default', `e ${id}`]),
        ...tableExists(tableOf(id), plainColumnsWith(rows)),
        ...tableExists([...databaseOf(id), 'keyed'], { ...plainColumnsWith(2), uniqueKey: ['n'] }),
      ],
      after: (id) => [
        ...expectAbsent(databaseOf(id)),
        ...expectAbsent(tableOf(id)),
        ...tableExists(['default', `e ${id}`, `t"${id}`], plainColumnsWith(rows)),
        ...tableExists(['default', `e ${id}`, 'keyed'], { ...plainColumnsWith(2), uniqueKey: ['n'] }),
      ],
      repeatCondition: 'OBJECT_NOT_FOUND',
      isLarge: rows === manyRows,
    }),
  ),
  {
    name: 'drop a database and its tables',
    prepare: (api, id) => makeTable(api, tableOf(id), 3),
    request: (id) => ({ method: 'DELETE', path: `${uriOfPath(databaseOf(id))}?cascade=true` }),
    before: (id) => tableExists(tableOf(id), plainColumnsWith(3)),
    after: (id) => [...expectAbsent(databaseOf(id)), ...expectAbsent(tableOf(id))],
  },
  {
    name: 'drop a database and its tables for good',
    prepare: (api, id) => makeTable(api, tableOf(id), 3),
    request: (id) => ({ method: 'DELETE', path: `${uriOfPath(databaseOf(id))}?cascade=true&purge=true` }),
    before: (id) => tableExists(tableOf(id), plainColumnsWith(3)),
    after: (id) => [...expectAbsent(databaseOf(id)), ...expectAbsent(tableOf(id))],
  },
  {
    name: 'bring a database back, but not what was dropped before it',
    prepare: async (api, id) => {
      await makeTable(api, tableOf(id), 2);
      await requireAcknowledged(api.delete(uriOfPath(tableOf(id))));
      await makeTable(api, tableOf(id), 3, { unique_key_constraints: ['n'] });
      await makeTable(api, [...databaseOf(id), 'other'], 4);
      await requireAcknowledged(api.delete(`${uriOfPath(databaseOf(id))}?cascade=true`));
    },
    request: (id) => ({ method: 'POST', path: pathOf('databases', 'undrop'), body: { name: `d ${id}` } }),
    before: (id) => [...expectAbsent(databaseOf(id)), ...expectAbsent(tableOf(id))],
    after: (id) => [
      ...tableExists(tableOf(id), { ...plainColumnsWith(3), uniqueKey: ['n'] }),
      ...tableExists([...databaseOf(id), 'other'], plainColumnsWith(4)),
    ],
    repeatCondition: 'OBJECT_NOT_FOUND',
  },
];

const ofTables: Scenario[] = [
  {
    name: 'create a table with keys and a default',
    prepare: async (api, id) => void (await requireAcknowledged(api.put(uriOfPath(databaseOf(id)), {}))),
    request: (id) => ({
      method: 'POST',
      path: `${uriOfPath(databaseOf(id))}/tables/create`,
      body: {
        name: `t"${id}`,
        columns: bodyOf(plainColumns).map((column) =>
          column.name === 'v' ? { ...column, defaultValue: "'new'" } : column,
        ),
        primaryKey: ['id'],
        unique_key_constraints: ['n'],
      },
    }),
    before: (id) => expectAbsent(tableOf(id)),
    after: (id) => tableExists(tableOf(id), { ...plainColumnsWith(0), uniqueKey: ['n'] }),
    repeatCondition: 'OBJECT_ALREADY_EXISTS',
  },
  {
    name: 'create a table from SQL',
    prepare: async (api, id) => void (await requireAcknowledged(api.put(uriOfPath(databaseOf(id)), {}))),
    request: (id) => ({
      method: 'PUT',
      path: `${uriOfPath(databaseOf(id))}/tables/create`,
      body: { sql: `CREATE TABLE "t""${id}" (id BIGINT, n INT, v VARCHAR)` },
    }),
    before: (id) => expectAbsent(tableOf(id)),
    after: (id) => tableExists(tableOf(id), plainColumnsWith(0)),
  },
  {
    name: 'create a table with the rows of a query',
    isTask: true,
    prepare: (api, id) => makeTable(api, [...databaseOf(id), 'source'], 3),
    request: (id) => ({
      method: 'POST',
      path: `${uriOfPath(databaseOf(id))}/tables`,
      body: { name: `t"${id}`, primaryKey: ['id'], asSelect: { sql: 'SELECT * FROM source', waitSeconds: 0 } },
    }),
    before: (id) => expectAbsent(tableOf(id)),
    after: (id) => tableExists(tableOf(id), plainColumnsWith(3)),
    repeatCondition: 'OBJECT_ALREADY_EXISTS',
  },
  {
    name: 'clone a table',
    isTask: true,
    prepare: (api, id) => makeTable(api, [...databaseOf(id), 'source'], 3, { unique_key_constraints: ['n'] }),
    request: (id) => ({
      method: 'POST',
      path: `${uriOfPath([...databaseOf(id), 'source'])}/clone`,
      body: { newName: `t"${id}`, waitSeconds: 0 },
    }),
    before: (id) => expectAbsent(tableOf(id)),
    after: (id) => tableExists(tableOf(id), { ...plainColumnsWith(3), uniqueKey: ['n'] }),
    repeatCondition: 'OBJECT_ALREADY_EXISTS',
  },
  {
    name: 'rename a table with a unique key',
    prepare: (api, id) => makeTable(api, tableOf(id), 3, { unique_key_constraints: ['n'] }),
    request: (id) => ({ method: 'POST', path: `${uriOfPath(tableOf(id))}/rename`, body: { newName: `u"${id}` } }),
    before: (id) => [
      ...expectAbsent([...databaseOf(id), `u"${id}`]),
      ...tableExists(tableOf(id), { ...plainColumnsWith(3), uniqueKey: ['n'] }),
    ],
    after: (id) => [
      ...expectAbsent(tableOf(id)),
      ...tableExists([...databaseOf(id), `u"${id}`], { ...plainColumnsWith(3), uniqueKey: ['n'] }),
    ],
    repeatCondition: 'OBJECT_NOT_FOUND',
  },
  {
    name: 'drop a table',
    prepare: (api, id) => makeTable(api, tableOf(id), 3),
    request: (id) => ({ method: 'DELETE', path: uriOfPath(tableOf(id)) }),
    before: (id) => tableExists(tableOf(id), plainColumnsWith(3)),
    after: (id) => expectAbsent(tableOf(id)),
  },
  {
    name: 'drop a table for good',
    prepare: (api, id) => makeTable(api, tableOf(id), 3),
    request: (id) => ({ method: 'DELETE', path: `${uriOfPath(tableOf(id))}?purge=true` }),
    before: (id) => tableExists(tableOf(id), plainColumnsWith(3)),
    after: (id) => expectAbsent(tableOf(id)),
  },
  ...[3, manyRows].map(
    (rows): Scenario => ({
      name: `bring a table of ${rows} rows back under another name`,
      prepare: async (api, id) => {
        await makeTable(api, tableOf(id), rows, { unique_key_constraints: ['n'] });
        await requireAcknowledged(api.delete(uriOfPath(tableOf(id))));
      },
      request: (id) => ({
        method: 'POST',
        path: `${uriOfPath(databaseOf(id))}/tables/undrop`,
        body: { name: `t"${id}`, newName: 'back' },
      }),
      before: (id) => [...expectAbsent(tableOf(id)), ...expectAbsent([...databaseOf(id), 'back'])],
      after: (id) => tableExists([...databaseOf(id), 'back'], { ...plainColumnsWith(rows), uniqueKey: ['n'] }),
      repeatCondition: 'OBJECT_NOT_FOUND',
      isLarge: rows === manyRows,
    }),
  ),
  {
    name: 'truncate a table',
    prepare: (api, id) => makeTable(api, tableOf(id), 3),
    request: (id) => ({ method: 'POST', path: `${uriOfPath(tableOf(id))}/truncate`, body: {} }),
    before: (id) => tableExists(tableOf(id), plainColumnsWith(3)),
    after: (id) => tableExists(tableOf(id), plainColumnsWith(0)),
  },
];

const ofColumns: Scenario[] = [
  {
    name: 'add a column',
    prepare: (api, id) => makeTable(api, tableOf(id), 3),
    request: (id) => ({
      method: 'POST',
      path: onColumn(id),
      body: { name: 'more', type: 'DOUBLE', defaultValue: 1.5 },
    }),
    before: (id) => tableExists(tableOf(id), plainColumnsWith(3)),
    after: (id) => tableExists(tableOf(id), { columns: [...plainColumns, 'more DOUBLE'], rows: 3 }),
    repeatCondition: 'OBJECT_ALREADY_EXISTS',
  },
  {
    name: 'drop a column',
    prepare: (api, id) => makeTable(api, tableOf(id), 3),
    request: (id) => ({ method: 'DELETE', path: onColumn(id, 'n') }),
    before: (id) => tableExists(tableOf(id), plainColumnsWith(3)),
    after: (id) => tableExists(tableOf(id), { columns: ['id BIGINT', 'v STRING'], rows: 3 }),
  },
  {
    name: 'rename a column of a key',
    prepare: (api, id) => makeTable(api, tableOf(id), 3, { unique_key_constraints: ['n'] }),
    request: (id) => ({ method: 'POST', path: onColumn(id, 'n', 'rename'), body: { newName: 'm' } }),
    before: (id) => tableExists(tableOf(id), { ...plainColumnsWith(3), uniqueKey: ['n'] }),
    after: (id) => tableExists(tableOf(id), { columns: ['id BIGINT', 'm INT', 'v STRING'], rows: 3, uniqueKey: ['m'] }),
    repeatCondition: 'OBJECT_NOT_FOUND',
  },
  {
    name: 'widen a column',
    prepare: (api, id) => makeTable(api, tableOf(id), 3),
    request: (id) => ({ method: 'PATCH', path: onColumn(id, 'n'), body: { type: 'BIGINT' } }),
    before: (id) => tableExists(tableOf(id), plainColumnsWith(3)),
    after: (id) => tableExists(tableOf(id), { columns: wide, rows: 3 }),
  },
  {
    name: 'widen a column of a large table, by a task',
    isTask: true,
    prepare: (api, id) => makeTable(api, tableOf(id), manyRows),
    request: (id) => ({ method: 'PATCH', path: onColumn(id, 'n'), body: { type: 'BIGINT' } }),
    before: (id) => tableExists(tableOf(id), plainColumnsWith(manyRows)),
    after: (id) => tableExists(tableOf(id), { columns: wide, rows: manyRows }),
    isLarge: true,
  },
  patch(
    'give a unique key',
    3,
    { unique_key_constraints: ['n', 'v'] },
    { ...plainColumnsWith(3), uniqueKey: ['n', 'v'] },
  ),
  patch(
    'give a large table a unique key, by a task',
    manyRows,
    { unique_key_constraints: ['n'] },
    { ...plainColumnsWith(manyRows), uniqueKey: ['n'] },
  ),
  patch(
    'change columns and the comment in one',
    3,
    {
      comment: 'changed',
      columns: bodyOf(['id BIGINT', 'n BIGINT', 'w DOUBLE']),
    },
    { columns: ['id BIGINT', 'n BIGINT', 'w DOUBLE'], rows: 3 },
  ),
];

const ofRows: Scenario[] = [
  {
    name: 'insert rows',
    prepare: (api, id) => makeTable(api, tableOf(id), 3),
    request: (id) => ({
      method: 'POST',
      path: `${uriOfPath(tableOf(id))}/rows`,
      body: { rows: Array.from({ length: 100 }, (_, i) => [i, i, 'v']) },
    }),
    before: (id) => tableExists(tableOf(id), plainColumnsWith(3)),
    after: (id) => tableExists(tableOf(id), plainColumnsWith(103)),
    repeatCondition: 'more',
  },
  {
    name: 'insert the rows of a query',
    prepare: (api, id) => makeTable(api, tableOf(id), 3),
    request: (id) => ({
      method: 'POST',
      path: `${uriOfPath(tableOf(id))}/insert_select`,
      body: { sql: "SELECT range, range, 'v' FROM range(100)" },
    }),
    before: (id) => tableExists(tableOf(id), plainColumnsWith(3)),
    after: (id) => tableExists(tableOf(id), plainColumnsWith(103)),
    repeatCondition: 'more',
  },
  {
    name: 'insert by a task',
    isTask: true,
    prepare: (api, id) => makeTable(api, tableOf(id), 3),
    request: (id) => ({
      method: 'POST',
      path: `${uriOfPath(databaseOf(id))}/query`,
      body: { sql: `INSERT INTO ${quoted(tableOf(id))} SELECT range, range, 'v' FROM range(100)`, waitSeconds: 0 },
    }),
    before: (id) => tableExists(tableOf(id), plainColumnsWith(3)),
    after: (id) => tableExists(tableOf(id), plainColumnsWith(103)),
    repeatCondition: 'more',
  },
  {
    name: 'give a unique key that the rows break',
    prepare: async (api, id) => {
      await makeTable(api, tableOf(id), 3);
      const path = `${uriOfPath(tableOf(id))}/rows`;
      await requireAcknowledged(api.post(path, { rows: [{ id: 1, n: 1, v: 'a second time' }] }));
    },
    request: (id) => ({ method: 'PATCH', path: uriOfPath(tableOf(id)), body: { unique_key_constraints: ['n'] } }),
    before: (id) => tableExists(tableOf(id), plainColumnsWith(4)),
    after: (id) => tableExists(tableOf(id), plainColumnsWith(4)),
    refusal: 'CONSTRAINT_VIOLATED',
  },
];

const all = [ofCatalogs, ofDatabases, ofTables, ofColumns, ofRows, backupScenarios, loadScenarios, viewScenarios];
export const scenarios: readonly Scenario[] = all.flat();
