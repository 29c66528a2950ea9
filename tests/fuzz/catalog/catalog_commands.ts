// Commands on the catalog as data, their random generation, and the requests for them.
import fc from 'fast-check';
import { difficultNames, otherCase, unusableNames } from './hostile_names.ts';

export const categories = ['catalogs', 'databases', 'tables', 'columns'] as const;

/** The name of a catalog, and those below it. */
export type Path = readonly string[];

export interface ColumnCommand {
  readonly name: string;
  readonly type: string;
  readonly defaultValue?: number;
}

export interface PatchCommand {
  readonly comment?: string | null;
  readonly properties?: Readonly<Record<string, string>> | null;
  readonly type?: string;
  readonly nullable?: boolean;
  /** Added to the version that the model knows: 0 is the right one. */
  readonly versionOff?: number;
}

export type Command =
  | {
      readonly do: 'create';
      readonly path: Path;
      readonly form: 'collection' | 'action' | 'object';
      readonly put: boolean;
      readonly comment: string | undefined;
      readonly columns: readonly ColumnCommand[];
      readonly unique: boolean;
    }
  | { readonly do: 'get'; readonly path: Path }
  | { readonly do: 'list'; readonly parent: Path; readonly pageSize: number }
  | {
      readonly do: 'search';
      readonly parent: Path;
      readonly pageSize: number;
      readonly pattern: string;
      readonly comment?: string;
    }
  | { readonly do: 'patch'; readonly path: Path; readonly body: PatchCommand }
  | { readonly do: 'rename'; readonly path: Path; readonly newName: string }
  | { readonly do: 'delete'; readonly path: Path; readonly cascade: boolean | undefined; readonly purge: boolean }
  | { readonly do: 'undrop'; readonly path: Path; readonly newName: string | undefined }
  | { readonly do: 'dropped'; readonly parent: Path; readonly pageSize: number; readonly pattern: string }
  | { readonly do: 'copy'; readonly path: Path; readonly to: Path }
  | { readonly do: 'insert'; readonly path: Path; readonly rows: number }
  | { readonly do: 'count'; readonly path: Path }
  | { readonly do: 'truncate'; readonly path: Path }
  /** `of`: the object whose rows the view counts. */
  | {
      readonly do: 'view';
      readonly path: Path;
      readonly sourcePath: Path;
      readonly put: boolean;
      readonly comment: string | undefined;
    }
  | { readonly do: 'viewPatch'; readonly path: Path; readonly sourcePath: Path }
  | { readonly do: 'viewGet'; readonly path: Path }
  | { readonly do: 'viewRename'; readonly path: Path; readonly newName: string }
  | { readonly do: 'viewDelete'; readonly path: Path; readonly purge: boolean }
  | { readonly do: 'viewUndrop'; readonly path: Path; readonly newName: string | undefined }
  | { readonly do: 'views'; readonly parent: Path; readonly pageSize: number };

export interface Session {
  readonly commands: readonly Command[];
  /** Paths of the default catalog are written without it. */
  readonly isShort: boolean;
}

export const columnTypes = ['INT', 'BIGINT', 'DOUBLE', 'STRING', 'DECIMAL(10,2)'];
const comments = ['a comment', 'Ünïcode 😀', 'it\'s; -- "', '100% _'];
const patterns = ['%', '%a%', 'A%', '_', '__%', '\\%%', '%\\_%', '😀%', '%"%', 'plain', ''];

/** Names whose order by code points differs from that of UTF-16. */
const hardToOrder = ['😀', '｡', '𝒳', 'z'];

/** Commands on few names, so that they meet; among them now and then one that is not acceptable. */
export function sessions(commandsMax: number): fc.Arbitrary<Session> {
  const drawn = fc.oneof(
    { weight: 8, arbitrary: fc.shuffledSubarray([...difficultNames], { minLength: 3, maxLength: 4 }) },
    { weight: 1, arbitrary: fc.constant(hardToOrder) },
  );
  return fc.tuple(drawn, fc.boolean()).chain(([names, isShort]) => {
    const pool = [...names, ...names.slice(0, 2).flatMap((name) => otherCase(name) ?? [])];
    const name = fc.oneof(
      { weight: 40, arbitrary: fc.constantFrom(...pool) },
      { weight: 1, arbitrary: fc.constantFrom(...unusableNames) },
    );
    return fc.record({
      isShort: fc.constant(isShort),
      commands: fc
        .array(commandOn(name), { minLength: 1, maxLength: commandsMax, size: 'max' })
        .map((commands) => [...beginnings(names), ...commands]),
    });
  });
}

/** Commands of all kinds, so that many refer to existing objects. */
function beginnings([a = '', b = '', c = '']: readonly string[]): Command[] {
  const columns = [a, b, c].map((name) => ({ name, type: 'INT' }));
  const defaults = { do: 'create', form: 'collection', put: true, comment: undefined, columns, unique: false } as const;
  return [['default', a], ['default', b], ['default', a, a], ['default', a, b], [c], [c, a], [c, a, a]].map((path) => ({
    ...defaults,
    path,
  }));
}

const pageSize = fc.constantFrom(1, 2, 3, 100);
const commandArbitrary = <const D extends Command['do'], T extends object>(
  kind: D,
  fields: { [K in keyof T]: fc.Arbitrary<T[K]> },
) => fc.record(fields).map((record) => ({ do: kind, ...record }));

const search = (parent: fc.Arbitrary<Path>) =>
  commandArbitrary('search', {
    parent,
    pageSize,
    pattern: fc.constantFrom(...patterns),
    comment: fc.constantFrom(undefined, 'ünïcode', '%', 'comment'),
  }).map(({ comment, ...rest }) => (comment === undefined ? rest : { ...rest, comment }));

function commandOn(name: fc.Arbitrary<string>): fc.Arbitrary<Command> {
  const root = fc.oneof({ weight: 2, arbitrary: fc.constant('default') }, { weight: 1, arbitrary: name });
  const path = (levels: number): fc.Arbitrary<Path> =>
    fc
      .tuple(root, fc.array(name, { minLength: levels - 1, maxLength: levels - 1 }))
      .map(([first, rest]) => [first, ...rest]);
  const anyPath = fc.oneof(
    { weight: 1, arbitrary: path(1) },
    { weight: 2, arbitrary: path(2) },
    { weight: 3, arbitrary: path(3) },
    { weight: 2, arbitrary: path(4) },
  );
  const underTable = fc.oneof(path(1), path(2), path(3));
  const aboveTable = fc.oneof(fc.constant<Path>([]), path(1), path(2));
  const parent = fc.oneof(fc.constant<Path>([]), path(1), path(2), path(3));
  const column = fc.record(
    { name, type: fc.constantFrom(...columnTypes), defaultValue: fc.constant(7) },
    { requiredKeys: ['name', 'type'] },
  );
  return fc.oneof(
    {
      weight: 10,
      arbitrary: commandArbitrary('create', {
        path: anyPath,
        form: fc.constantFrom('collection' as const, 'action' as const, 'object' as const),
        put: fc.boolean(),
        comment: fc.option(fc.constantFrom(...comments), { nil: undefined }),
        columns: fc.uniqueArray(column, {
          minLength: 1,
          maxLength: 3,
          selector: (column) => column.name.toLowerCase(),
        }),
        unique: fc.boolean(),
      }),
    },
    { weight: 3, arbitrary: commandArbitrary('get', { path: anyPath }) },
    { weight: 3, arbitrary: commandArbitrary('list', { parent, pageSize }) },
    { weight: 2, arbitrary: search(fc.oneof(path(1), path(2), path(3))) },
    {
      weight: 4,
      arbitrary: commandArbitrary('patch', {
        path: anyPath,
        body: fc.record(
          {
            comment: fc.constantFrom(null, ...comments),
            properties: fc.constantFrom(null, {}, { 'a key': 'a value', '😀': '' }),
            type: fc.constantFrom(...columnTypes),
            nullable: fc.boolean(),
            versionOff: fc.constantFrom(0, 0, 0, 1, 5),
          },
          { requiredKeys: [] },
        ),
      }),
    },
    { weight: 3, arbitrary: commandArbitrary('rename', { path: anyPath, newName: name }) },
    {
      weight: 3,
      arbitrary: commandArbitrary('delete', {
        path: anyPath,
        cascade: fc.constantFrom(undefined, false, true),
        purge: fc.boolean(),
      }),
    },
    {
      weight: 4,
      arbitrary: commandArbitrary('undrop', { path: underTable, newName: fc.option(name, { nil: undefined }) }),
    },
    {
      weight: 2,
      arbitrary: commandArbitrary('dropped', { parent: aboveTable, pageSize, pattern: fc.constantFrom(...patterns) }),
    },
    { weight: 1, arbitrary: commandArbitrary('copy', { path: path(3), to: path(3) }) },
    { weight: 3, arbitrary: commandArbitrary('insert', { path: path(3), rows: fc.integer({ min: 1, max: 5 }) }) },
    { weight: 2, arbitrary: commandArbitrary('count', { path: path(3) }) },
    { weight: 1, arbitrary: commandArbitrary('truncate', { path: path(3) }) },
    ...viewCommands(path, name),
  ) as fc.Arbitrary<Command>;
}

function viewCommands(path: (levels: number) => fc.Arbitrary<Path>, name: fc.Arbitrary<string>) {
  const comment = fc.option(fc.constantFrom(...comments), { nil: undefined });
  const tablePath = path(3);
  return [
    {
      weight: 7,
      arbitrary: commandArbitrary('view', { path: tablePath, sourcePath: path(3), put: fc.boolean(), comment }),
    },
    { weight: 2, arbitrary: commandArbitrary('viewPatch', { path: tablePath, sourcePath: path(3) }) },
    { weight: 2, arbitrary: commandArbitrary('viewGet', { path: tablePath }) },
    { weight: 2, arbitrary: commandArbitrary('viewRename', { path: tablePath, newName: name }) },
    { weight: 3, arbitrary: commandArbitrary('viewDelete', { path: tablePath, purge: fc.boolean() }) },
    {
      weight: 3,
      arbitrary: commandArbitrary('viewUndrop', { path: tablePath, newName: fc.option(name, { nil: undefined }) }),
    },
    { weight: 1, arbitrary: commandArbitrary('views', { parent: path(2), pageSize }) },
  ];
}

/** The URI of an object, or with one more segment that of a collection in it; names that a path cannot contain are refused. */
export function pathText(path: Path, isShort: boolean, ...more: readonly string[]): string {
  const segments = path.flatMap((name, i) => [categories[i] as string, name]);
  const aliasLength =
    isShort && path[0] === 'default' && (path.length > 1 || more[0] === 'databases') ? segments.slice(2) : segments;
  return ['/api/v2', ...aliasLength, ...more]
    .map((segment, i) => (i === 0 ? segment : encodeURIComponent(segment)))
    .join('/');
}

/** Whether a path can contain these names. */
export const isSendable = (path: Path) => path.every((name) => name !== '' && name.isWellFormed());
