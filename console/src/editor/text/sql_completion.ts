// Completion: databases, tables and views of the catalog, columns of the tables that the statement names (also by their alias), words
// and functions of the dialect. Names come from the API, and are requested only when they are needed.
import {
  acceptCompletion,
  autocompletion,
  type Completion,
  type CompletionContext,
  type CompletionResult,
} from '@codemirror/autocomplete';
import { keywordCompletionSource } from '@codemirror/lang-sql';
import { Prec } from '@codemirror/state';
import { keymap } from '@codemirror/view';
import { type NamedTable, namedTables, statementAt } from '../../../../src/client/statements.ts';
import { quoteName } from '../../results/grid/value_text.ts';
import { functionNames, sqlDialect } from './sql_language.ts';

export interface ColumnName {
  readonly name: string;
  readonly type: string;
}

/** The names that a statement can use, from where it runs. Rejections count as no names. */
export interface NamesOfCatalog {
  /** Tables and views of a database by the beginning of their name; without one, of the database where the statement runs. */
  objects(prefix: string, database: string | undefined): Promise<readonly { name: string; kind: 'table' | 'view' }[]>;
  databases(prefix: string): Promise<readonly string[]>;
  /** Undefined if there is no such table or view. */
  columns(path: readonly string[]): Promise<readonly ColumnName[] | undefined>;
}

const nothing = (): never[] => [];
const keywords = keywordCompletionSource(sqlDialect, true);
const functionCompletions: readonly Completion[] = functionNames.map((label) => ({
  label,
  type: 'function',
  apply: `${label}(`,
  boost: -20,
}));
const pathBefore = /((?:"[^"]+"|[\p{L}_][\p{L}\p{N}_$]*)\.)+("?[\p{L}\p{N}_$]*)$/u;
const segment = /"[^"]+"|[\p{L}_][\p{L}\p{N}_$]*/gu;
/** Where a table is expected rather than a column. */
const tableExpected = /\b(?:from|join|update|into|table|describe|summarize)\s+"?[\p{L}\p{N}_$]*$/iu;

export const completion = (names: () => NamesOfCatalog) => [
  autocompletion({
    override: [(context) => complete(context, names())],
    activateOnTyping: true,
    icons: false,
    maxRenderedOptions: 60,
  }),
  Prec.highest(keymap.of([{ key: 'Tab', run: acceptCompletion }])),
];

async function complete(context: CompletionContext, names: NamesOfCatalog): Promise<CompletionResult | null> {
  const text = context.state.doc.toString();
  const span = statementAt(text, context.pos);
  const sql = span ? text.slice(span.from, Math.max(span.to, context.pos)) : '';
  const tables = namedTables(sql);
  const line = context.state.doc.lineAt(context.pos);
  const before = line.text.slice(0, context.pos - line.from);
  const path = pathBefore.exec(before);
  if (path) {
    const parts = [...path[0].matchAll(segment)].map(([part]) => part.replaceAll('"', ''));
    const prefix = (path[2] ?? '').replaceAll('"', '');
    const owner = path[2] === '' ? parts : parts.slice(0, -1);
    const options = await afterDot(owner, prefix, tables, names);
    return { from: context.pos - (path[2] ?? '').length, options, validFor: /^"?[\p{L}\p{N}_$]*$/u };
  }
  const word = context.matchBefore(/"?[\p{L}_][\p{L}\p{N}_$]*$/u);
  if (!word && !context.explicit) return null;
  const from = word?.from ?? context.pos;
  const prefix = (word?.text ?? '').replaceAll('"', '');
  const isTable = tableExpected.test(before);
  const [objects, databases, columns, known] = await Promise.all([
    names.objects(prefix, undefined).catch(nothing),
    isTable ? names.databases(prefix).catch(nothing) : [],
    isTable ? [] : columnsOf(tables, names),
    isTable ? null : keywords(context),
  ]);
  const options: readonly Completion[] = [
    ...columns.map((column) => columnCompletion(column, 10)),
    ...objects.map(({ name, kind }) => nameCompletion(name, kind, isTable ? 10 : 0)),
    ...databases.map((name) => nameCompletion(name, 'database', 0)),
    ...(isTable ? [] : aliasesOf(tables)),
    ...(known?.options ?? []),
    ...(isTable ? [] : functionCompletions),
  ];
  // The response can be reused only for longer prefixes: it has the names with this prefix.
  return { from, options };
}

async function afterDot(
  owner: readonly string[],
  prefix: string,
  tables: readonly NamedTable[],
  names: NamesOfCatalog,
): Promise<readonly Completion[]> {
  const [first = ''] = owner;
  const isSame = (a: string | undefined): boolean => a?.toLowerCase() === first.toLowerCase();
  const table = owner.length === 1 ? tables.find(({ alias, path }) => isSame(alias) || isSame(path.at(-1))) : undefined;
  const columns = await names.columns(table?.path ?? owner).catch(() => undefined);
  if (columns) return columns.map((column) => columnCompletion(column, 0));
  const objects = owner.length === 1 ? await names.objects(prefix, first).catch(nothing) : [];
  return objects.map(({ name, kind }) => nameCompletion(name, kind, 0));
}

async function columnsOf(tables: readonly NamedTable[], names: NamesOfCatalog): Promise<readonly ColumnName[]> {
  const lists = await Promise.all(tables.map(({ path }) => names.columns(path).catch(() => undefined)));
  const byName = new Map(lists.flatMap((columns) => (columns ?? []).map((column) => [column.name, column] as const)));
  return [...byName.values()];
}

const aliasesOf = (tables: readonly NamedTable[]): Completion[] =>
  tables.flatMap(({ alias, path }) =>
    alias === undefined ? [] : [{ label: alias, type: 'variable', detail: path.join('.'), boost: 5 }],
  );

const nameCompletion = (name: string, kind: string, boost: number): Completion => ({
  label: name,
  apply: quoteName(name),
  type: 'type',
  detail: kind,
  boost,
});

const columnCompletion = ({ name, type }: ColumnName, boost: number): Completion => ({
  label: name,
  apply: quoteName(name),
  type: 'property',
  detail: type,
  boost,
});
