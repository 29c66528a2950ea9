// Changes of views, and of their sources, that are interrupted at every step.

import type { Api } from '../injection/api.ts';
import { quoted } from './agreement.ts';
import { type Expected, uriOfPath, type ViewState } from './expectation.ts';
import {
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

const viewOf = (id: string, name = 'v') => [...databaseOf(id), `${name}"${id}`];
const collectionOf = (id: string) => `${uriOfPath(databaseOf(id))}/views`;
const all = (id: string): ViewState => ({ sql: `SELECT * FROM "t""${id}"`, columns: plainColumns, rows: 3 });
const view = (path: readonly string[], state: ViewState): Expected => [{ path, isView: true, is: state }];
const noView = (path: readonly string[]): Expected => [{ path, isView: true, is: 'absent' }];

const makeView = (api: Api, path: readonly string[], sql: string) =>
  requireAcknowledged(api.put(uriOfPath(path, true), { sql }));

async function makeAll(api: Api, id: string): Promise<void> {
  await makeTable(api, tableOf(id), 3);
  await makeView(api, viewOf(id), all(id).sql);
}

/** A view of the view. */
const overOf = (id: string) => viewOf(id, 'over');
const viewStateOver = (id: string): ViewState => ({ sql: `SELECT n FROM "v""${id}"`, columns: ['n INT'], rows: 3 });

async function makeBoth(api: Api, id: string): Promise<void> {
  await makeAll(api, id);
  await makeView(api, overOf(id), viewStateOver(id).sql);
}
const expectBoth = (id: string): Expected => [...view(viewOf(id), all(id)), ...view(overOf(id), viewStateOver(id))];

const scenarios: Scenario[] = [
  {
    name: 'create a view',
    prepare: (api, id) => makeTable(api, tableOf(id), 3),
    request: (id) => ({ method: 'POST', path: collectionOf(id), body: { name: `v"${id}`, sql: all(id).sql } }),
    before: (id) => [...noView(viewOf(id)), ...tableExists(tableOf(id), plainColumnsWith(3))],
    after: (id) => [...view(viewOf(id), all(id)), ...tableExists(tableOf(id), plainColumnsWith(3))],
    repeatCondition: 'OBJECT_ALREADY_EXISTS',
  },
  {
    name: 'give a view under another a new query',
    prepare: makeBoth,
    request: (id) => ({
      method: 'PATCH',
      path: uriOfPath(viewOf(id), true),
      body: { sql: 'SELECT 1.5::DOUBLE AS n', comment: 'changed' },
    }),
    before: expectBoth,
    after: (id) => [
      ...view(viewOf(id), { sql: 'SELECT 1.5::DOUBLE AS n', columns: ['n DOUBLE'], rows: 1 }),
      ...view(overOf(id), { ...viewStateOver(id), columns: ['n DOUBLE'], rows: 1 }),
    ],
  },
  {
    name: 'give a view a query that another does not survive',
    prepare: makeBoth,
    request: (id) => ({ method: 'PATCH', path: uriOfPath(viewOf(id), true), body: { sql: 'SELECT 1 AS other' } }),
    before: expectBoth,
    after: expectBoth,
    refusal: 'IN_USE',
  },
  {
    name: 'rename a view',
    prepare: makeAll,
    request: (id) => ({ method: 'POST', path: `${uriOfPath(viewOf(id), true)}/rename`, body: { newName: `w"${id}` } }),
    before: (id) => [...noView(viewOf(id, 'w')), ...view(viewOf(id), all(id))],
    after: (id) => [...noView(viewOf(id)), ...view(viewOf(id, 'w'), all(id))],
    repeatCondition: 'OBJECT_NOT_FOUND',
  },
];

const dropScenarios: Scenario[] = [
  {
    name: 'drop a view',
    prepare: makeAll,
    request: (id) => ({ method: 'DELETE', path: uriOfPath(viewOf(id), true) }),
    before: (id) => view(viewOf(id), all(id)),
    after: (id) => [...noView(viewOf(id)), ...tableExists(tableOf(id), plainColumnsWith(3))],
  },
  {
    name: 'bring a view back under another name',
    prepare: async (api, id) => {
      await makeAll(api, id);
      await requireAcknowledged(api.delete(uriOfPath(viewOf(id), true)));
    },
    request: (id) => ({
      method: 'POST',
      path: `${collectionOf(id)}/undrop`,
      body: { name: `v"${id}`, newName: `w"${id}` },
    }),
    before: (id) => [...noView(viewOf(id)), ...noView(viewOf(id, 'w'))],
    after: (id) => [...noView(viewOf(id)), ...view(viewOf(id, 'w'), all(id))],
    repeatCondition: 'OBJECT_NOT_FOUND',
  },
  {
    name: 'drop a database with views',
    prepare: makeBoth,
    request: (id) => ({ method: 'DELETE', path: `${uriOfPath(databaseOf(id))}?cascade=true` }),
    before: expectBoth,
    after: (id) => [...expectAbsent(databaseOf(id)), ...noView(viewOf(id)), ...noView(overOf(id))],
  },
  {
    name: 'bring a database back with its views, but for one that is not valid any more',
    prepare: async (api, id) => {
      await makeAll(api, id);
      const lost = ['default', `lost ${id}`, 't'];
      await makeTable(api, lost, 1);
      await makeView(api, viewOf(id, 'lost'), `SELECT * FROM ${quoted(lost)}`);
      await requireAcknowledged(api.delete(`${uriOfPath(databaseOf(id))}?cascade=true`));
      await requireAcknowledged(api.delete(uriOfPath(lost)));
    },
    request: (id) => ({ method: 'POST', path: '/api/v2/databases/undrop', body: { name: `d ${id}` } }),
    before: (id) => [...expectAbsent(databaseOf(id)), ...noView(viewOf(id))],
    after: (id) => [...view(viewOf(id), all(id)), ...noView(viewOf(id, 'lost'))],
    repeatCondition: 'OBJECT_NOT_FOUND',
  },
  {
    name: 'bring a catalog back under another name, with its views',
    prepare: async (api, id) => {
      await makeTable(api, [`c/${id}`, 'd', 't'], 3);
      await makeView(api, [`c/${id}`, 'd', 'v'], 'SELECT * FROM d.t');
      await requireAcknowledged(api.delete(`${uriOfPath([`c/${id}`])}?cascade=true`));
    },
    request: (id) => ({
      method: 'POST',
      path: '/api/v2/catalogs/undrop',
      body: { name: `c/${id}`, newName: `back ${id}` },
    }),
    before: (id) => [...expectAbsent([`c/${id}`]), ...expectAbsent([`back ${id}`])],
    after: (id) => view([`back ${id}`, 'd', 'v'], { sql: 'SELECT * FROM d.t', columns: plainColumns, rows: 3 }),
    repeatCondition: 'OBJECT_NOT_FOUND',
  },
];

const under: Scenario[] = [
  {
    name: 'add a column to a table under views',
    prepare: makeBoth,
    request: (id) => ({
      method: 'POST',
      path: `${uriOfPath(tableOf(id))}/columns`,
      body: { name: 'more', type: 'DOUBLE' },
    }),
    before: expectBoth,
    after: (id) => [
      ...view(viewOf(id), { ...all(id), columns: [...plainColumns, 'more DOUBLE'] }),
      ...view(overOf(id), viewStateOver(id)),
    ],
    repeatCondition: 'OBJECT_ALREADY_EXISTS',
  },
  {
    name: 'drop a table under a view',
    prepare: makeAll,
    request: (id) => ({ method: 'DELETE', path: uriOfPath(tableOf(id)) }),
    before: (id) => view(viewOf(id), all(id)),
    after: (id) => view(viewOf(id), all(id)),
    refusal: 'IN_USE',
  },
];

export const viewScenarios: readonly Scenario[] = [...scenarios, ...dropScenarios, ...under];
