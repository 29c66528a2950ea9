// Reads the statements of a SQL file as declarations: CREATE CATALOG, DATABASE, TABLE and VIEW, and USE, which sets the database of the names
// after it. Only the head of a statement is read here, to know which object it defines; the server parses the definition.
import { statementsOf, type Token, tokensOf } from '../../../client/statements.ts';
import type { Declaration, FileErrors, Place } from './declaration.ts';
import type { SourceFile } from './find_files.ts';
import { type Kind, type KindName, kindNamed, parentDefaultOf } from './kinds.ts';

interface Namespace {
  readonly catalog?: string | undefined;
  readonly database?: string | undefined;
}

interface Head {
  readonly kind: KindName;
  readonly names: readonly string[];
  /** Where the text after the name begins. */
  readonly end: number;
}

const created: Readonly<Record<string, KindName>> = {
  CATALOG: 'catalog',
  DATABASE: 'database',
  SCHEMA: 'database',
  TABLE: 'table',
  VIEW: 'view',
};

const advice =
  'only CREATE CATALOG, DATABASE, TABLE and VIEW, and USE, are declarations; other objects are declared in YAML';

export function sqlDeclarations({ path, text }: SourceFile, errors: FileErrors): Declaration[] {
  const placeAt = lineIndex(path, text);
  const declarations: Declaration[] = [];
  let current: Namespace = {};
  for (const { from, to } of statementsOf(text)) {
    const place = placeAt(from);
    const sql = text.slice(from, to);
    const used = usedNamespace(sql);
    if (used) {
      current = used;
      continue;
    }
    const head = headOf(sql);
    if (!head) {
      errors.add(place, advice);
      continue;
    }
    const declaration = declarationOf(head, sql, place, current, errors);
    if (declaration) declarations.push(declaration);
  }
  return declarations;
}

function declarationOf(
  head: Head,
  sql: string,
  place: Place,
  current: Namespace,
  errors: FileErrors,
): Declaration | undefined {
  const kind = kindNamed(head.kind);
  const path = pathOf(kind, head.names, current);
  if (!path) {
    errors.add(place, `the name must be ${expectedName(kind)}; USE sets the database of the names after it`);
    return undefined;
  }
  const isEmpty = kind.ancestors.length < 2;
  if (isEmpty && sql.slice(head.end).trim() !== '') {
    errors.add(place, `nothing can follow the name of a ${kind.name}; declare its other fields in YAML`);
    return undefined;
  }
  const name = path.at(-1) ?? '';
  // Without IF NOT EXISTS, OR REPLACE and the namespace, which say how a statement is run.
  const definition = `CREATE ${head.kind.toUpperCase()} "${name.replaceAll('"', '""')}" ${sql.slice(head.end).trim()}`;
  return {
    kind,
    path,
    fields: isEmpty ? {} : { sql: definition },
    renamedFrom: undefined,
    renamedColumns: {},
    place,
    placeOf: () => place,
  };
}

/** Undefined if the name has too many parts, or lacks its database. */
function pathOf(kind: Kind, names: readonly string[], current: Namespace): readonly string[] | undefined {
  const own = names.at(-1);
  const above = names.slice(0, -1);
  if (own === undefined || above.length > kind.ancestors.length) return undefined;
  const path = kind.ancestors.map((each, i) => {
    const given = above[i - (kind.ancestors.length - above.length)];
    const used = each.singular === 'catalog' ? current.catalog : current.database;
    return given ?? (above.length > 0 && i > 0 ? undefined : used) ?? parentDefaultOf(kind, each);
  });
  return path.every((name) => name !== undefined) ? [...path, own] : undefined;
}

const expectedName = ({ ancestors, name }: Kind): string => {
  const parts = [...ancestors.map(({ singular }) => singular), name];
  return parts.length === 1 ? name : `${parts.slice(1).join('.')} or ${parts.join('.')}`;
};

const significant = (sql: string): readonly Token[] =>
  tokensOf(sql).filter(({ kind }) => kind !== 'space' && kind !== 'comment');

function usedNamespace(sql: string): Namespace | undefined {
  if (!/^use\b/i.test(sql)) return undefined;
  const { names, next } = namesAt(sql, significant(sql), 1);
  const [database, catalog] = [...names].reverse();
  return next === undefined && names.length <= 2 && database !== undefined ? { catalog, database } : undefined;
}

/** Undefined if the statement creates nothing that can be declared. */
function headOf(sql: string): Head | undefined {
  // The head of a statement: its names have at most 128 characters each.
  const tokens = significant(sql.slice(0, 4096));
  const word = (i: number) => sql.slice(tokens[i]?.from ?? 0, tokens[i]?.to ?? 0).toUpperCase();
  if (word(0) !== 'CREATE') return undefined;
  let next = word(1) === 'OR' && word(2) === 'REPLACE' ? 3 : 1;
  const kind = created[word(next)];
  if (kind === undefined) return undefined;
  next++;
  if (word(next) === 'IF' && word(next + 1) === 'NOT' && word(next + 2) === 'EXISTS') next += 3;
  const { names, next: after } = namesAt(sql, tokens, next);
  return names.length === 0 ? undefined : { kind, names, end: after?.from ?? sql.length };
}

function namesAt(sql: string, tokens: readonly Token[], start: number) {
  const names: string[] = [];
  let i = start;
  for (; tokens[i]?.kind === 'word' || tokens[i]?.kind === 'name'; i += 2) {
    const token = tokens[i] as Token;
    const text = sql.slice(token.from, token.to);
    names.push(token.kind === 'name' ? text.slice(1, -1).replaceAll('""', '"') : text);
    if (sql[tokens[i + 1]?.from ?? sql.length] !== '.') {
      i++;
      break;
    }
  }
  return { names, next: tokens[i] };
}

/** Places by offset, from the beginnings of the lines. */
function lineIndex(file: string, text: string): (offset: number) => Place {
  const starts = [0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return (offset) => {
    const after = starts.findIndex((start) => start > offset);
    const line = after < 0 ? starts.length : after;
    return { file, line, column: offset - (starts[line - 1] ?? 0) + 1 };
  };
}
