// The expected state of the catalog after any commands, and the expected responses: the standard in 250 lines, without a store or
// an engine. For sequential commands only; see concurrency.test.ts for concurrent ones.
import { foldName } from '../../../src/model/names.ts';
import { parseType, widens } from '../../../src/model/types.ts';
import {
  type ColumnCommand,
  type Command,
  categories,
  type PatchCommand,
  type Path,
  pathText,
} from './catalog_commands.ts';
import {
  byCodePoints,
  type Expected,
  isUnusable,
  matchesPattern,
  type Node,
  node,
  ok,
  refuse,
} from './catalog_node.ts';
import type { ModelledEngine } from './modelled_engines.ts';
import { ViewsModel } from './views_model.ts';

export type { Expected } from './catalog_node.ts';

/** The names in the body of the command. */
function textsOf(command: Command): Path {
  if (command.do === 'rename') return [command.newName];
  if (command.do === 'undrop') return [...command.path.slice(-1), command.newName ?? ''];
  if (command.do === 'copy') return command.to;
  if (command.do === 'viewRename') return [command.newName];
  if (command.do === 'viewUndrop') return [...command.path.slice(-1), command.newName ?? ''];
  if (command.do === 'view') return command.path.slice(-1);
  if (command.do !== 'create') return [];
  const columns = command.path.length === 3 ? command.columns.map(({ name }) => name) : [];
  return [...command.path.slice(-1), ...columns];
}

const byText = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

export class CatalogModel {
  readonly #root: Node;
  readonly #views: ViewsModel;

  readonly #engine: ModelledEngine;

  /** `version`: of the catalog that always exists. */
  constructor(version: number, engine: ModelledEngine) {
    this.#engine = engine;
    this.#root = node('', { children: [node('default', { version })] });
    this.#views = new ViewsModel(this.#root, engine);
  }

  /** The expected response of the command; changes the model accordingly. */
  expect(command: Command): Expected {
    // A body is refused for this before its content is checked.
    if (!textsOf(command).every((text) => text.isWellFormed())) return refuse('INVALID_PARAMETER');
    switch (command.do) {
      case 'create':
        return this.#create(command);
      case 'get':
        return this.#on(command.path, (object) => ok(this.record(command.path, object)));
      case 'list':
        return this.#list(command.parent, () => true);
      case 'search': {
        const { pattern, comment = '' } = command;
        return this.#list(command.parent, (child) => {
          return matchesPattern(child.name, pattern) && (child.comment ?? '').toLowerCase().includes(comment);
        });
      }
      case 'patch':
        return this.#on(command.path, (object, parent) => this.#patch(command.path, object, parent, command.body));
      case 'rename':
        return this.#rename(command.path, command.newName);
      case 'delete':
        return this.#delete(command);
      case 'undrop':
        return this.#undrop(command.path, command.newName);
      case 'dropped':
        return this.#on(command.parent, ({ dropped }) => ({
          ...ok({}),
          names: dropped
            .filter((node) => matchesPattern(node.name, command.pattern))
            .sort(byCodePoints)
            .map((node) => node.name),
        }));
      case 'copy':
        return this.#copy(command.path, command.to);
      case 'insert':
        return this.#on(command.path, (table) => this.#insert(table, command.rows));
      case 'view':
      case 'viewPatch':
      case 'viewGet':
      case 'viewRename':
      case 'viewDelete':
      case 'viewUndrop':
        if (command.do === 'viewDelete' && !this.find(command.path.slice(0, 2))) return ok({ deleted: false });
        return this.#on(command.path.slice(0, 2), (database) => this.#views.expect(command, database));
      case 'views':
        return this.#on(command.parent, ({ views }) => ({
          ...ok({}),
          names: views.map(({ name }) => name).sort(byText),
        }));
      case 'count': {
        const within = this.#on(command.path.slice(0, 2), () => ok({}));
        if (within.status !== 200) return within;
        if (this.#views.find(command.path)) return ok({ rows: [[1]] });
        const table = this.find(command.path);
        return table ? ok({ rows: [[table.rows]] }) : refuse('SQL_INVALID');
      }
      case 'truncate':
        return this.#on(command.path, (table) => {
          table.rows = 0;
          for (const column of table.children) column.hasNulls = false;
          return ok(this.record(command.path, table));
        });
    }
  }

  find(path: Path): Node | undefined {
    let current: Node | undefined = this.#root;
    for (const name of path) current = current?.children.find((child) => child.name === name);
    return current;
  }

  /** Whether SQL treats a name in the path as that of another object: engines differ in what they fold. */
  isAmbiguousToSql(path: Path): boolean {
    let current: Node | undefined = this.#root;
    for (const name of path) {
      const siblings: Node[] = [...(current?.children ?? []), ...(current?.views ?? [])];
      const sameNamed: Node[] = siblings.filter((child) => foldName(child.name) === foldName(name));
      if (sameNamed.some((child) => child.name !== name)) return true;
      current = sameNamed[0];
    }
    return false;
  }

  /** The version that a PATCH should give. */
  versionOf(path: Path): number {
    return this.find(path)?.version ?? 1;
  }

  record(path: Path, object: Node): object {
    const { name, version, comment } = object;
    const common = { name, version, comment, uri: pathText([...path.slice(0, -1), name], false) };
    const { children, uniqueKey } = object;
    const properties = object.properties ?? {};
    if (path.length === 1) return { ...common, properties };
    if (path.length === 2)
      return { ...common, properties, tableCount: children.length, viewCount: object.views.length };
    if (path.length === 4) return { ...common, ...this.#columnFields(object) };
    const columns = children.map((column, i) => ({
      name: column.name,
      position: i + 1,
      comment: column.comment,
      ...this.#columnFields(column),
    }));
    return { ...common, properties, columns, unique_key_constraints: uniqueKey };
  }

  #columnFields({ type, nullable, defaultValue }: Node) {
    return { type, nullable, defaultValue };
  }

  /** The response for an existing object; for a missing one, the first missing name of its path. */
  #on(path: Path, then: (object: Node, parent: Node) => Expected): Expected {
    for (let n = 1; n <= path.length; n++) {
      if (this.find(path.slice(0, n))) continue;
      return refuse('OBJECT_NOT_FOUND', 404, { category: categories[n - 1], name: path[n - 1] });
    }
    return then(this.find(path) as Node, this.find(path.slice(0, -1)) as Node);
  }

  #create(command: Extract<Command, { do: 'create' }>): Expected {
    const { path, comment = null } = command;
    const put = command.put || command.form === 'object';
    const [parentPath, name] = [path.slice(0, -1), path.at(-1) as string];
    return this.#on(parentPath, (parent) => {
      const exact = parent.children.find((child) => child.name === name);
      const child = path.length === 3 ? this.#newTable(command) : node(name, { comment });
      if (!child) return refuse('INVALID_PARAMETER');
      if (child.uniqueKey.length > 0 && !this.#engine.capabilities.enforcedKeys)
        return refuse('NOT_SUPPORTED_BY_ENGINE');
      if (exact && put) return ok({ ...this.record(path, exact), created: false }, 201);
      if (isUnusable(this.#engine, path)) return refuse('INVALID_NAME');
      const nameConflict = this.#taken(parent, name);
      if (nameConflict) return nameConflict;
      if (path.length === 4) {
        const column = this.#newColumn({ ...(command.columns[0] as ColumnCommand), name }, parent.rows > 0);
        Object.assign(child, column, { comment });
        parent.version++;
      }
      parent.children.push(child);
      return ok({ ...this.record(path, child), created: true }, 201);
    });
  }

  #taken(parent: Node, name: string, exceptNode?: Node): Expected | undefined {
    const sameNamed = [...parent.children, ...parent.views].find(
      (child) => child !== exceptNode && foldName(child.name) === foldName(name),
    );
    return sameNamed && refuse('OBJECT_ALREADY_EXISTS', 400, { name: sameNamed.name });
  }

  #newTable(command: Extract<Command, { do: 'create' }>): Node | undefined {
    const { path, comment = null, columns, unique } = command;
    if (columns.some(({ name }) => isUnusable(this.#engine, [...path, name]))) return undefined;
    const uniqueKey = unique
      ? columns.filter((candidate) => candidate.defaultValue === undefined).map((one) => one.name)
      : [];
    const children = columns.map((column) => this.#newColumn(column, false));
    return node(path.at(-1) as string, { comment, children, uniqueKey });
  }

  #newColumn({ name, type, defaultValue }: ColumnCommand, tableHasRows: boolean): Node {
    const text = defaultValue === undefined ? null : String(defaultValue);
    return node(name, { type, defaultValue: text, hasNulls: tableHasRows && text === null });
  }

  #list(parent: Path, fits: (child: Node) => boolean): Expected {
    return this.#on(parent, ({ children }) => {
      const matches = children.filter(fits).sort(byCodePoints);
      return { ...ok({}), names: matches.map((child) => child.name) };
    });
  }

  #patch(path: Path, object: Node, parent: Node, body: PatchCommand): Expected {
    const { versionOff = 0, comment = object.comment, properties = object.properties } = body;
    if (path.length === 4) return this.#patchColumn(path, object, parent, body);
    if (versionOff !== 0) return refuse('VERSION_CONFLICT', 400, { version: object.version });
    const next = { comment, properties };
    const before = { comment: object.comment, properties: object.properties };
    if (JSON.stringify(next) !== JSON.stringify(before)) object.version++;
    Object.assign(object, next);
    return ok(this.record(path, object));
  }

  #patchColumn(path: Path, column: Node, table: Node, body: PatchCommand): Expected {
    const { versionOff = 0, comment = column.comment, type = column.type, nullable = column.nullable } = body;
    if (versionOff !== 0) return refuse('VERSION_CONFLICT', 400, { version: column.version });
    if (!widens(parseType(column.type), parseType(type))) return refuse('CHANGE_NOT_SUPPORTED');
    if (!nullable && column.hasNulls) return refuse('CONSTRAINT_VIOLATED');
    if (comment === column.comment && type === column.type && nullable === column.nullable) {
      return ok(this.record(path, column));
    }
    Object.assign(column, { comment, type, nullable, version: column.version + 1 });
    table.version++;
    return ok(this.record(path, column));
  }

  #rename(path: Path, newName: string): Expected {
    return this.#on(path, (object, parent) => {
      if (path.length === 1 && object.name === 'default') return refuse('OBJECT_PROTECTED');
      if (isUnusable(this.#engine, [...path.slice(0, -1), newName])) return refuse('INVALID_NAME');
      if (newName !== object.name && this.#views.hold(object)) return refuse('IN_USE');
      const nameConflict = this.#taken(parent, newName, object);
      if (nameConflict) return nameConflict;
      if (newName !== object.name) {
        object.version++;
        if (path.length === 4) {
          parent.version++;
          parent.uniqueKey = parent.uniqueKey.map((name) => (name === object.name ? newName : name));
        }
      }
      object.name = newName;
      return ok(this.record(path, object));
    });
  }

  #delete({ path, cascade = false, purge }: Extract<Command, { do: 'delete' }>): Expected {
    const object = this.find(path);
    const parent = this.find(path.slice(0, -1));
    if (!object || !parent) return ok({ deleted: false });
    if (path.length === 1 && object.name === 'default') return refuse('OBJECT_PROTECTED');
    if (path.length < 3 && !cascade && object.children.length + object.views.length > 0) return refuse('NOT_EMPTY');
    if (path.length < 4 && this.#views.needFromOutside(object)) return refuse('IN_USE');
    if (path.length === 4) {
      if (parent.uniqueKey.includes(object.name)) return refuse('IN_USE');
      if (parent.children.length === 1) return refuse('CHANGE_NOT_SUPPORTED');
      parent.version++;
    }
    parent.children.splice(parent.children.indexOf(object), 1);
    if (path.length < 4 && !purge) parent.dropped.push(object);
    return ok({ deleted: true });
  }

  #undrop(path: Path, newName: string | undefined): Expected {
    const oldName = path.at(-1) as string;
    return this.#on(path.slice(0, -1), (parent) => {
      const object = parent.dropped.findLast(({ name }) => name === oldName);
      if (!object) return refuse('OBJECT_NOT_FOUND', 404, { category: categories[path.length - 1], name: oldName });
      const to = [...path.slice(0, -1), newName ?? oldName];
      if (isUnusable(this.#engine, to)) return refuse('INVALID_NAME');
      const nameConflict = this.#taken(parent, newName ?? oldName);
      if (nameConflict) return nameConflict;
      parent.dropped.splice(parent.dropped.indexOf(object), 1);
      parent.children.push(object);
      object.name = newName ?? oldName;
      object.version++;
      this.#views.restore(object, path.length);
      return ok(this.record(to, object));
    });
  }

  #copy(path: Path, to: Path): Expected {
    return this.#on(path, (table) =>
      this.#on(to.slice(0, -1), (parent) => {
        if (isUnusable(this.#engine, to)) return refuse('INVALID_NAME');
        const nameConflict = this.#taken(parent, to.at(-1) as string);
        if (nameConflict) return nameConflict;
        const children = table.children.map((column) => ({ ...column, version: 1, hasNulls: false }));
        const { comment, properties, uniqueKey } = table;
        const copy = node(to.at(-1) as string, { comment, properties, children, uniqueKey: [...uniqueKey] });
        parent.children.push(copy);
        return ok({ ...this.record(to, copy), created: true }, 201);
      }),
    );
  }

  /** Rows without any column: columns without a default are NULL. */
  #insert(table: Node, rows: number): Expected {
    const required = table.children.filter((column) => column.defaultValue === null);
    if (required.some((column) => !column.nullable)) return refuse('ROWS_INVALID');
    for (const column of required) column.hasNulls = true;
    table.rows += rows;
    return ok({ rowCount: rows, created: true }, 201);
  }
}
