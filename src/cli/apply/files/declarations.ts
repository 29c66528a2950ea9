// All declarations of the files, in the order in which their objects can be created.
import { namedTables } from '../../../client/statements.ts';
import { foldName } from '../../../model/names.ts';
import { type Declaration, FileErrors, placeText, titleOf } from './declaration.ts';
import type { SourceFile } from './find_files.ts';
import { isOfKind, kinds } from './kinds.ts';
import { sqlDeclarations } from './sql_source.ts';
import { yamlDeclarations } from './yaml_source.ts';

/** Throws CommandError with the errors of all files. */
export function readDeclarations(files: readonly SourceFile[]): readonly Declaration[] {
  const errors = new FileErrors();
  const found = files.flatMap((file) =>
    file.format === 'sql' ? sqlDeclarations(file, errors) : yamlDeclarations(file, errors),
  );
  const unique = withoutDuplicates(found, errors);
  const views = orderedViews(
    unique.filter((each) => isOfKind(each, 'view')),
    errors,
  );
  errors.throwIfAny();
  const order = kinds().map(({ name }) => name);
  return [...unique.filter((each) => !isOfKind(each, 'view')), ...views].sort(
    (a, b) => order.indexOf(a.kind.name) - order.indexOf(b.kind.name),
  );
}

/** The same for two names that SQL does not distinguish; tables and views of a database share their names. */
const keyOf = ({ kind, path }: Declaration): string => {
  const shared = isOfKind({ kind }, 'view') ? 'table' : (kind.holder ?? kind.name);
  return [shared, ...path.map(foldName)].map(encodeURIComponent).join('/');
};

function withoutDuplicates(found: readonly Declaration[], errors: FileErrors): Declaration[] {
  const byKey = new Map<string, Declaration>();
  for (const each of found) {
    const first = byKey.get(keyOf(each));
    if (first)
      errors.add(each.place, `${titleOf(each)} is declared before, as ${titleOf(first)} at ${placeText(first.place)}`);
    else byKey.set(keyOf(each), each);
  }
  return [...byKey.values()];
}

/** Each view after those that it reads. */
function orderedViews(views: readonly Declaration[], errors: FileErrors): Declaration[] {
  const byKey = new Map(views.map((view) => [view.path.map(foldName).join('\0'), view]));
  const sources = new Map(views.map((view) => [view, viewsIn(view, byKey)]));
  const ordered = new Set<Declaration>();
  const visit = (view: Declaration, trail: readonly Declaration[]): void => {
    if (ordered.has(view)) return;
    if (trail.includes(view)) {
      const circle = [...trail.slice(trail.indexOf(view)), view].map(({ path }) => path.slice(1).join('.'));
      errors.add(view.place, `these views read each other in a circle: ${circle.join(' → ')}`);
      return;
    }
    for (const source of sources.get(view) ?? []) visit(source, [...trail, view]);
    ordered.add(view);
  };
  for (const view of views) visit(view, []);
  return [...ordered];
}

function viewsIn(view: Declaration, byKey: ReadonlyMap<string, Declaration>): Declaration[] {
  const [catalog = '', database = ''] = view.path;
  const sql = String(view.fields.sql ?? '');
  const local = commonTables(sql);
  return namedTables(sql).flatMap(({ path }) => {
    if (path.length === 1 && local.has(foldName(path[0] ?? ''))) return [];
    const full = [catalog, database].slice(0, Math.max(0, 3 - path.length)).concat(path);
    return byKey.get(full.map(foldName).join('\0')) ?? [];
  });
}

/** The names that a query defines for itself: `WITH name AS (...)`. They hide views of the same name. */
function commonTables(sql: string): ReadonlySet<string> {
  const found = sql.matchAll(
    /(?:\bwith\b|\brecursive\b|,)\s*("(?:[^"]|"")+"|[\p{L}_][\p{L}\p{N}_$]*)[^()]*(?:\([^()]*\)\s*)?\bas\s+(?:(?:not\s+)?materialized\s*)?\(/giu,
  );
  return new Set([...found].map(([, name = '']) => foldName(name.startsWith('"') ? name.slice(1, -1) : name)));
}
