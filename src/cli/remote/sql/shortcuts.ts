// The commands of an interactive session that begin with a backslash, as in psql.

import type { tablesApi } from '../../../api/tables/tables.ts';
import type { CollectionClient } from '../../../client/types.ts';
import type { Value } from '../../../client/values.ts';
import { namesIn } from '../dotted_name.ts';
import { CommandError } from '../exit_codes.ts';
import { type RowFormat, rowFormats, writerOf } from '../output/row_formats.ts';
import type { Session } from './session_state.ts';

interface Shortcut {
  readonly argument: string;
  readonly doc: string;
  readonly run: (session: Session, argument: string, signal: AbortSignal) => Promise<void>;
}

export const shortcuts: Readonly<Record<string, Shortcut>> = {
  '\\l': { argument: '', doc: 'lists the catalogs and their databases', run: listDatabases },
  '\\dt': { argument: '', doc: 'lists the tables of the database', run: listTables },
  '\\dv': { argument: '', doc: 'lists the views of the database', run: listViews },
  '\\d': {
    argument: '[table]',
    doc: 'shows the columns of a table or view; without a name, lists the tables',
    run: describe,
  },
  '\\c': { argument: '[catalog.]database', doc: 'changes the database of unqualified names', run: changeDatabase },
  '\\w': { argument: '', doc: 'lists the warehouses and their state', run: listWarehouses },
  '\\format': { argument: 'format', doc: `shows rows as ${rowFormats.join(', ')}`, run: changeFormat },
  '\\x': { argument: '', doc: 'shows each row as a list of its columns, or as a table again', run: changeExpanded },
  '\\timing': { argument: '', doc: 'shows how long statements take, or stops to', run: changeTiming },
  '\\?': { argument: '', doc: 'shows this help', run: help },
  '\\q': {
    argument: '',
    doc: 'ends the session, as Ctrl-D does',
    async run(session) {
      session.isEnded = true;
    },
  },
};

/** Throws CommandError and TabulariumError. */
export async function runShortcut(line: string, session: Session, signal: AbortSignal): Promise<void> {
  const [, word = '', argument = ''] = /^(\S+)\s*(.*)$/s.exec(line.replace(/\s*;?\s*$/, '')) ?? [];
  const shortcut = Object.hasOwn(shortcuts, word) ? shortcuts[word] : undefined;
  if (!shortcut) throw new CommandError('usage', `${word} is not known; \\? lists what is`);
  await shortcut.run(session, argument, signal);
}

async function show({ runtime, options }: Session, names: readonly string[], rows: readonly (readonly Value[])[]) {
  const output = runtime.output(options);
  const writer = writerOf(
    'table',
    names.map((name) => ({ name, type: 'STRING' })),
    { width: output.columns },
  );
  await output.write(writer.rows(rows) + writer.end(rows.length));
}

async function listDatabases(session: Session, _argument: string, signal: AbortSignal): Promise<void> {
  const { client } = session.connection;
  const rows: string[][] = [];
  for (const { name: catalog } of await client.catalogs.browse({}, { signal }).all())
    for (const { name } of await client.catalogs(catalog).databases.browse({}, { signal }).all())
      rows.push([catalog, name]);
  await show(session, ['catalog', 'database'], rows);
}

function databaseOf({ connection, options: { catalog, database } }: Session) {
  if (database === undefined) throw new CommandError('usage', 'no database is selected: \\c DATABASE selects one');
  return connection.client.catalogs(catalog).databases(database);
}

const tablesOf = (session: Session): CollectionClient<typeof tablesApi> => databaseOf(session).tables;

async function listTables(session: Session, _argument: string, signal: AbortSignal): Promise<void> {
  const tables = await tablesOf(session).list({}, { signal }).all();
  const rows = tables.map(({ name, statistics, comment }) => [
    name,
    statistics ? String(statistics.rowCount) : null,
    comment,
  ]);
  await show(session, ['table', 'rows', 'comment'], rows);
}

async function listViews(session: Session, _argument: string, signal: AbortSignal): Promise<void> {
  const views = await databaseOf(session).views.list({}, { signal }).all();
  await show(
    session,
    ['view', 'comment'],
    views.map(({ name, comment }) => [name, comment]),
  );
}

async function describe(session: Session, argument: string, signal: AbortSignal): Promise<void> {
  if (argument === '') return listTables(session, argument, signal);
  const { catalog, database } = session.options;
  const [name = '', inDatabase = database, inCatalog = catalog] = namesIn(argument);
  if (inDatabase === undefined) throw new CommandError('usage', 'no database is selected: \\c DATABASE selects one');
  const place = session.connection.client.catalogs(inCatalog).databases(inDatabase);
  const views = await place.views
    .search({ namePattern: name }, { signal })
    .all()
    .catch(() => []);
  const view = views.find((each) => each.name === name);
  if (view)
    return show(
      session,
      ['column', 'type'],
      view.columns.map((column) => [column.name, column.type]),
    );
  const table = await place.tables(name).get({ signal });
  const rows = table.columns.map((column) => [
    column.name,
    column.type,
    column.nullable ? '' : 'not null',
    column.defaultValue,
    column.isKey ? 'key' : '',
    column.comment,
  ]);
  await show(session, ['column', 'type', 'nullable', 'default', 'key', 'comment'], rows);
}

async function listWarehouses(session: Session, _argument: string, signal: AbortSignal): Promise<void> {
  const all = await session.connection.client.warehouses.list({}, { signal }).all();
  const rows = all.map(({ name, engine, state, health, runningQueries }) => [
    name,
    engine,
    state,
    health.message,
    String(runningQueries),
  ]);
  await show(session, ['warehouse', 'engine', 'state', 'health', 'running'], rows);
}

async function changeDatabase(session: Session, argument: string, signal: AbortSignal): Promise<void> {
  const [database = '', catalog = session.options.catalog] = namesIn(argument);
  if (database === '') throw new CommandError('usage', 'name a database: \\c DATABASE, or \\c CATALOG.DATABASE');
  const known = await session.connection.client.catalogs(catalog).databases.browse({}, { signal }).all();
  if (!known.some(({ name }) => name === database))
    throw new CommandError(
      'failed',
      `there is no database ${JSON.stringify(database)} in the catalog ${JSON.stringify(catalog)}`,
    );
  session.options = { ...session.options, catalog, database };
}

async function changeFormat(session: Session, argument: string): Promise<void> {
  if (!(rowFormats as readonly string[]).includes(argument))
    throw new CommandError('usage', `formats are ${rowFormats.join(', ')}`);
  session.options = { ...session.options, format: argument as RowFormat };
}

async function changeExpanded(session: Session): Promise<void> {
  const isExpanded = session.options.format === 'vertical';
  session.options = { ...session.options, format: isExpanded ? 'table' : 'vertical' };
  session.runtime.output(session.options).note(`rows are shown as ${isExpanded ? 'a table' : 'lists of columns'}`);
}

async function changeTiming(session: Session): Promise<void> {
  const timing = session.options.timing !== true;
  session.options = { ...session.options, timing };
  session.runtime.output(session.options).note(`timing is ${timing ? 'on' : 'off'}`);
}

async function help({ runtime, options }: Session): Promise<void> {
  const lines = Object.entries(shortcuts).map(
    ([word, { argument, doc }]) => `  ${`${word} ${argument}`.padEnd(24)}${doc}\n`,
  );
  await runtime.output(options).write(`${lines.join('')}  ${'Ctrl-C'.padEnd(24)}cancels the statement that runs\n`);
}
