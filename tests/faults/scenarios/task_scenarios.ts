// Changes by tasks that are interrupted at every step: loads from each source, exports, statements, results of many pages,
// webhooks, schedules; and the upload that precedes a load.

import { deadlineMs } from '../../deadline.ts';
import { type Answer, type Api, noAnswer, pathOf } from '../injection/api.ts';
import { exportPrefix, externalSystems, sourceKey, sourceText } from '../injection/external_systems.ts';
import { quoted } from './agreement.ts';
import { type TableState, uriOfPath, type World } from './expectation.ts';
import { notesFile } from './scenario_flags.ts';
import {
  databaseOf,
  expectAbsent,
  makeTable,
  plainColumnsWith,
  requireAcknowledged,
  type Scenario,
  scheduleClock,
  tableExists,
  tableOf,
} from './scenario_parts.ts';

/** Created for one scenario, and known only then. */
const prepared = new Map<string, Readonly<Record<string, unknown>>>();
const minuteMs = 60_000;
const noticeMsMax = deadlineMs(20_000);
const scheduleMsMax = deadlineMs(20_000);
const lookAgainMs = 20;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

interface TableTask {
  readonly name: string;
  readonly action: string;
  readonly body: (id: string) => object | Promise<object>;
  readonly after?: TableState;
  readonly prepare?: (api: Api, id: string) => Promise<void>;
  readonly extra?: object;
  readonly more?: Partial<Scenario>;
}

/** An action on a table of three rows. */
function onTable({ name, action, body, after = plainColumnsWith(3), prepare, extra, more }: TableTask): Scenario {
  return {
    name,
    prepare: async (api, id) => {
      await makeTable(api, tableOf(id), 3, extra);
      await prepare?.(api, id);
    },
    request: async (id) => ({ method: 'POST', path: `${uriOfPath(tableOf(id))}/${action}`, body: await body(id) }),
    before: (id) => tableExists(tableOf(id), plainColumnsWith(3)),
    after: (id) => tableExists(tableOf(id), after),
    repeatCondition: 'more',
    isTask: true,
    ...more,
  };
}

const columns = [{ name: 'id' }, { name: 'v', source: 'note' }];

async function upload(api: Api, id: string, text: string, send: boolean): Promise<void> {
  const { result } = await requireAcknowledged(api.post(pathOf('uploads'), { name: `${id}.csv`, bytes: text.length }));
  prepared.set(id, result);
  if (send) await requireAcknowledged(api.send({ method: 'PUT', path: String(result.link), bytes: text }));
}

const uploadId = (id: string) => String(prepared.get(id)?.uploadId);

/** The upload is deleted after the load; the file of rejected rows can be read. */
async function lookAtUsed({ api }: World, id: string): Promise<string[]> {
  const { status } = await api.get(pathOf('uploads', uploadId(id)));
  return status === 404 ? [] : [`the upload that was loaded is still there: ${status}`];
}

const ofLoads: Scenario[] = [
  onTable({
    name: 'load an upload, some rows left out',
    action: 'load',
    prepare: (api, id) => upload(api, id, `${sourceText}x,third\n`, true),
    body: (id) => ({ source: { upload: uploadId(id) }, columns, errorsMax: 1 }),
    after: plainColumnsWith(5),
    more: { repeatCondition: 'INVALID_PARAMETER', extraDifferences: lookAtUsed },
  }),
  onTable({
    name: 'load over the rows by their key',
    action: 'load',
    extra: { primaryKey: ['id'] },
    prepare: async (api, id) => {
      const path = `${uriOfPath(tableOf(id))}/rows`;
      await requireAcknowledged(api.post(path, { rows: [{ id: 101, n: 9, v: 'old' }] }));
    },
    body: () => ({ source: { path: notesFile }, columns, mode: 'upsert' }),
    more: {
      before: (id) => tableExists(tableOf(id), plainColumnsWith(4)),
      after: (id) => tableExists(tableOf(id), plainColumnsWith(5)),
      extraDifferences: async ({ api }, id) => {
        const sql = `SELECT v, n FROM ${quoted(tableOf(id))} WHERE id = 101`;
        const { result } = await api.post(`${uriOfPath(databaseOf(id))}/query`, { sql });
        const rows = JSON.stringify(result.rows);
        return rows === '[["first",9]]' ? [] : [`the row that was there is ${rows}`];
      },
    },
  }),
  onTable({
    name: 'load in the place of the rows',
    action: 'load',
    body: () => ({ source: { path: notesFile }, columns, mode: 'replace' }),
    after: plainColumnsWith(2),
  }),
  onTable({
    name: 'load a page of the web',
    action: 'load',
    body: async () => ({ source: { url: (await externalSystems()).pageUrl }, columns }),
    after: plainColumnsWith(5),
    more: { usesServices: true },
  }),
  onTable({
    name: 'load an object',
    action: 'load',
    body: async () => ({ source: { s3: { ...(await externalSystems()).objectStore, key: sourceKey } }, columns }),
    after: plainColumnsWith(5),
    more: { usesServices: true },
  }),
];

const madeColumns = [
  { name: 'id', type: 'BIGINT' },
  { name: 'n', expression: 'try_cast(id AS INT)', type: 'INT' },
  { name: 'v', source: 'note' },
];

/** A table of two rows created from a file. */
function makeOf(
  description: string,
  body: (id: string) => object | Promise<object>,
  { prepare, ...more }: Partial<Scenario> = {},
): Scenario {
  return {
    name: `make a table from ${description}`,
    prepare: async (api, id) => {
      await requireAcknowledged(api.put(uriOfPath(databaseOf(id)), {}));
      await prepare?.(api, id);
    },
    request: async (id) => ({
      method: 'POST',
      path: `${uriOfPath(databaseOf(id))}/load`,
      body: { table: tableOf(id).at(-1), columns: madeColumns, ...(await body(id)) },
    }),
    before: (id) => expectAbsent(tableOf(id)),
    after: (id) => tableExists(tableOf(id), plainColumnsWith(2)),
    repeatCondition: 'OBJECT_ALREADY_EXISTS',
    isTask: true,
    ...more,
  };
}

const ofNewTables: Scenario[] = [
  makeOf(
    'an upload, a row left out',
    (id) => ({ source: { upload: uploadId(id) }, errorsMax: 1, primaryKey: ['id'] }),
    {
      prepare: (api, id) => upload(api, id, `${sourceText}x,third\n`, true),
      repeatCondition: 'INVALID_PARAMETER',
      extraDifferences: lookAtUsed,
    },
  ),
  makeOf('an object', async () => ({ source: { s3: { ...(await externalSystems()).objectStore, key: sourceKey } } }), {
    usesServices: true,
  }),
];

/** Whether an export of the table succeeded and its manifest is in the store; leftovers.ts checks for other objects. */
async function lookAtExports({ api }: World, id: string): Promise<string[]> {
  const target = uriOfPath(tableOf(id));
  const { objects } = await externalSystems();
  for (const task of await api.tasks()) {
    if (task.type !== 'export' || task.target !== target || task.state !== 'succeeded') continue;
    const { result } = await requireAcknowledged(api.get(pathOf('tasks', String(task.taskId))));
    const { rowCount } = result.result as { rowCount: number };
    const manifest = await objects.readSmall(`${exportPrefix}/${task.taskId}/manifest.json`, 1e6).catch(String);
    if (rowCount === 3 && manifest.toString().includes('"rowCount": 3')) return [];
    return [`an export of ${rowCount} rows succeeded; its manifest: ${manifest}`];
  }
  return ['no export succeeded'];
}

const ofExports: Scenario[] = ['parquet', 'arrow'].map((format) =>
  onTable({
    name: `export a table as ${format}`,
    action: 'export',
    body: async () => ({ format, to: { s3: { ...(await externalSystems()).objectStore, prefix: exportPrefix } } }),
    more: { usesServices: true, extraDifferences: lookAtExports },
  }),
);

/** An engine splits pages at multiples of some thousand rows. */
const pagedRows = 10_000;
const pagesSql = `SELECT range AS id, repeat('x', 30) AS v FROM range(${pagedRows})`;

/** A result of several pages is complete if its task succeeded. */
async function lookAtPages({ api }: World, id: string): Promise<string[]> {
  const target = uriOfPath(databaseOf(id));
  const differences: string[] = [];
  let repeats = 0;
  for (const task of await api.tasks()) {
    if (task.target !== target || task.state !== 'succeeded') continue;
    repeats++;
    const { result } = await requireAcknowledged(api.get(pathOf('tasks', String(task.taskId))));
    const { pageCount } = result.result as { pageCount: number };
    let rows = 0;
    for (let page = 0; page < pageCount; page++) {
      const answer = await api.get(pathOf('tasks', String(task.taskId), 'pages', String(page)));
      if (answer.status !== 200) differences.push(`page ${page}: ${answer.status} ${answer.code}`);
      else rows += (answer.result.rows as unknown[]).length;
    }
    if (rows !== pagedRows) differences.push(`${pageCount} pages have ${rows} rows`);
  }
  return repeats > 0 ? differences : ['no statement succeeded'];
}

const onDatabase = (
  name: string,
  body: (id: string) => object | Promise<object>,
  more: Partial<Scenario>,
): Scenario => ({
  ...onTable({ name, action: '', body }),
  request: async (id) => ({ method: 'POST', path: `${uriOfPath(databaseOf(id))}/query`, body: await body(id) }),
  ...more,
});

async function lookAtNotice({ api }: World, id: string): Promise<string[]> {
  const { receiver } = await externalSystems();
  const sql = noticeSql(id);
  for (const task of await api.tasks()) {
    const { result } = await requireAcknowledged(api.get(pathOf('tasks', String(task.taskId))));
    if ((result.request as { sql?: string } | null)?.sql !== sql) continue;
    for (const deadline = Date.now() + noticeMsMax; Date.now() < deadline; await pause(lookAgainMs)) {
      const { notify } = (await requireAcknowledged(api.get(pathOf('tasks', String(task.taskId))))).result;
      const { state } = notify as { state: string };
      if (state === 'waiting') continue;
      const notifications = receiver.noticesOf(task.taskId).length;
      return state === 'sent' && notifications > 0 ? [] : [`the notice is ${state}, and came ${notifications} times`];
    }
    return ['the notice was not sent in time'];
  }
  return ['there is no task whose end was to be notified'];
}

const noticeSql = (id: string) => `SELECT '${id}'`;

const ofStatements: Scenario[] = [
  onTable({
    name: 'change rows by a task',
    action: 'update',
    body: () => ({ set: { n: 'n + 1' }, where: 'true', waitSeconds: 0 }),
    more: {
      extraDifferences: async ({ api }, id) => {
        const sql = `SELECT sum(n) FROM ${quoted(tableOf(id))}`;
        const { result } = await api.post(`${uriOfPath(databaseOf(id))}/query`, { sql });
        const sum = Number((result.rows as unknown[][])[0]?.[0]);
        return sum === 6 ? [] : [`the sum should be 6 and is ${sum}`];
      },
    },
  }),
  onTable({
    name: 'delete rows by a task',
    action: 'delete_rows',
    body: () => ({ where: 'id < 2', waitSeconds: 0 }),
    after: plainColumnsWith(1),
  }),
  onTable({
    name: 'insert the rows of a query by a task',
    action: 'insert_select',
    body: () => ({ sql: "SELECT range, range, 'v' FROM range(100)", waitSeconds: 0 }),
    after: plainColumnsWith(103),
  }),
  onTable({ name: 'put a table in order', action: 'optimize', body: () => ({}) }),
  {
    ...onTable({ name: 'check a catalog', action: '', body: () => ({}) }),
    request: () => ({ method: 'POST', path: '/api/v2/catalogs/default/check', body: {} }),
  },
  onDatabase('a result of many pages, by a task', () => ({ sql: pagesSql, waitSeconds: 0 }), {
    extraDifferences: lookAtPages,
  }),
  onDatabase('a result of many pages, waited for', () => ({ sql: pagesSql }), { extraDifferences: lookAtPages }),
  onDatabase(
    'tell of the end of a task',
    async (id) => ({
      sql: noticeSql(id),
      waitSeconds: 0,
      notify: { url: (await externalSystems()).receiver.url, secret: 'it is me, really' },
    }),
    { extraDifferences: lookAtNotice },
  ),
];

const ofUploads: Scenario[] = [
  {
    ...onTable({ name: 'send an upload', action: '', body: () => ({}) }),
    prepare: async (api, id) => {
      await makeTable(api, tableOf(id), 3);
      await upload(api, id, sourceText, false);
    },
    request: (id) => ({ method: 'PUT', path: String(prepared.get(id)?.link), bytes: sourceText }),
    repeatCondition: 'CHANGE_NOT_SUPPORTED',
    extraDifferences: async ({ api }, id) => {
      const { status, result } = await api.get(pathOf('uploads', uploadId(id)));
      const summary = `${status} ${result.state} ${result.receivedBytes}`;
      return summary === `200 ready ${sourceText.length}` ? [] : [`the upload is ${summary}`];
    },
  },
];

const dueAt = new Map<string, number>();

/** A schedule adds a row at each run: once per minute, whichever process is killed. The test controls its clock. */
export const scheduleScenarios: Scenario[] = [
  {
    ...onTable({ name: 'run a schedule', action: '', body: () => ({}), after: plainColumnsWith(4) }),
    prepare: async (api, id) => {
      await makeTable(api, tableOf(id), 3);
      const sql = `INSERT INTO ${quoted(tableOf(id))} VALUES (77, 77, 'ran')`;
      const query = { sql, database: databaseOf(id)[1] };
      await requireAcknowledged(
        api.post(pathOf('schedules'), { name: `s ${id}`, query, cron: '* * * * *', missedRuns: 'all' }),
      );
    },
    requestAgain: async (world, id): Promise<Answer> => {
      if (!dueAt.has(id)) {
        scheduleClock.ms += minuteMs;
        dueAt.set(id, Math.floor(scheduleClock.ms / minuteMs) * minuteMs);
      }
      const due = dueAt.get(id) as number;
      await world.setClock(scheduleClock.ms).catch(() => {});
      for (const deadline = Date.now() + scheduleMsMax; ; await pause(lookAgainMs)) {
        const { status, result } = await world.api.get(pathOf('schedules', `s ${id}`));
        if (status === 0) return noAnswer;
        if (result.lastRunAt === new Date(due).toISOString()) break;
        if (Date.now() > deadline) throw new Error(`the schedule does not run: ${JSON.stringify(result)}`);
      }
      return world.api.patch(pathOf('schedules', `s ${id}`), { disabled: true });
    },
  },
];

export const taskScenarios: readonly Scenario[] = [
  ...ofLoads,
  ...ofNewTables,
  ...ofExports,
  ...ofStatements,
  ...ofUploads,
];
