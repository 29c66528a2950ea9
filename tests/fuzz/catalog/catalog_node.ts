// The parts of the model of the catalog: objects as nodes of a tree, expected responses, and valid names.
import { foldName, nameFault } from '../../../src/model/names.ts';
import { categories, type Path } from './catalog_commands.ts';
import type { ModelledEngine } from './modelled_engines.ts';

export interface Node {
  name: string;
  version: number;
  comment: string | null;
  /** Null is shown as empty; but becoming empty is a change. */
  properties: Readonly<Record<string, string>> | null;
  readonly children: Node[];
  /** Dropped children that can be restored, the latest last. */
  readonly dropped: Node[];
  /** Of a table. */
  rows: number;
  uniqueKey: string[];
  /** Of a column. */
  type: string;
  nullable: boolean;
  defaultValue: string | null;
  hasNulls: boolean;
  /** Of a database: its views, and dropped ones. */
  readonly views: Node[];
  readonly droppedViews: Node[];
  /** Of a view: the object whose rows its query counts. */
  sourcePath: Path;
}

/** `result`: fields that the response must have. `names`: of a list, in order. */
export interface Expected {
  readonly status: number;
  readonly code: string;
  readonly result?: object;
  readonly names?: readonly string[];
}

export const ok = (result: object, status = 200): Expected => ({ status, code: '0', result });
export const refuse = (code: string, status = 400, result: object = {}): Expected => ({ status, code, result });

export function node(name: string, fields: Partial<Node> = {}): Node {
  const tableDefaults = { rows: 0, uniqueKey: [], type: '', nullable: true, defaultValue: null, hasNulls: false };
  const ofViews = { views: [], droppedViews: [], sourcePath: [] };
  return {
    name,
    version: 1,
    comment: null,
    properties: null,
    children: [],
    dropped: [],
    ...tableDefaults,
    ...ofViews,
    ...fields,
  };
}

export const byCodePoints = (a: Node, b: Node) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name));

/** SQL LIKE with `\` as its escape; case-insensitive. */
export function matchesPattern(text: string, pattern: string): boolean {
  const source = foldName(pattern).replace(/\\(.)|[\s\S]/gsu, (match, escaped?: string) => {
    if (escaped === undefined && match === '%') return '.*';
    if (escaped === undefined && match === '_') return '.';
    return (escaped ?? match).replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
  });
  return new RegExp(`^${source}$`, 'su').test(foldName(text));
}

export function isUnusable(engine: ModelledEngine, path: Path): boolean {
  const [category, name] = [categories[path.length - 1] as (typeof categories)[number], path.at(-1) as string];
  return (nameFault(name) ?? engine.reservedName(category, name)) !== undefined;
}
