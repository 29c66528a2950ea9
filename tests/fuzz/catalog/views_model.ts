// Views in the model, and what they prevent. The query of each counts the rows of a table or of another view, by its full name.
import { foldName } from '../../../src/model/names.ts';
import { type Command, type Path, pathText } from './catalog_commands.ts';
import { type Expected, isUnusable, type Node, node, ok, refuse } from './catalog_node.ts';
import type { ModelledEngine } from './modelled_engines.ts';

export type ViewCommand = Extract<
  Command,
  { readonly do: 'view' | 'viewPatch' | 'viewGet' | 'viewRename' | 'viewDelete' | 'viewUndrop' }
>;

export class ViewsModel {
  readonly #root: Node;
  readonly #engine: ModelledEngine;

  constructor(root: Node, engine: ModelledEngine) {
    this.#root = root;
    this.#engine = engine;
  }

  find([catalog, database, name]: Path): Node | undefined {
    const root = this.#root.children.find((child) => child.name === catalog);
    return root?.children.find((candidate) => candidate.name === database)?.views.find((one) => one.name === name);
  }

  expect(command: ViewCommand, database: Node): Expected {
    const { path } = command;
    const name = path.at(-1) as string;
    if (command.do === 'view') return this.#create(command, database);
    if (command.do === 'viewUndrop') return this.#undrop(command, database);
    const view = database.views.find((candidate) => candidate.name === name);
    if (!view) {
      if (command.do === 'viewDelete') return ok({ deleted: false });
      return refuse('OBJECT_NOT_FOUND', 404, { category: 'views', name });
    }
    switch (command.do) {
      case 'viewGet':
        return ok(this.#record(path, view));
      case 'viewPatch':
        return this.#patch(path, view, command.sourcePath);
      case 'viewRename':
        return this.#rename(path, view, database, command.newName);
      case 'viewDelete': {
        if (this.needFromOutside(view)) return refuse('IN_USE');
        database.views.splice(database.views.indexOf(view), 1);
        if (!command.purge) database.droppedViews.push(view);
        return ok({ deleted: true });
      }
    }
  }

  /** Whether views outside an object depend on it, or on something in it. */
  needFromOutside(object: Node): boolean {
    const objectsInside = new Set(all(object));
    return all(this.#root).some((view) => isView(view) && !objectsInside.has(view) && this.#isOf(view, objectsInside));
  }

  /** The same, or it contains views: then it cannot be renamed. */
  hold(object: Node): boolean {
    return this.needFromOutside(object) || all(object).some((node) => node !== object && isView(node));
  }

  /** Views are restored with their database or catalog; those without sources stay dropped. */
  restore(object: Node, levels: number): void {
    const databases = levels === 1 ? object.children : levels === 2 ? [object] : [];
    const open = databases.flatMap((database) => database.views.splice(0).map((view) => ({ view, database })));
    for (;;) {
      const next = open.findIndex(({ view }) => this.#resolve(view.sourcePath));
      if (next < 0) break;
      const [{ view, database } = { view: object, database: object }] = open.splice(next, 1);
      database.views.push(view);
    }
    for (const { view, database } of open) database.droppedViews.push(view);
  }

  #isOf(view: Node, objects: ReadonlySet<Node>): boolean {
    const source = this.#resolve(view.sourcePath);
    return source !== undefined && objects.has(source.object);
  }

  /** The object that a full name means in SQL, and its name. */
  #resolve([catalog = '', database = '', name = '']: Path) {
    const root = this.#named(this.#root.children, catalog);
    const within = this.#named(root?.children, database);
    const table = this.#named(within?.children, name);
    const view = this.#named(within?.views, name);
    const object = table ?? view;
    if (!root || !within || !object) return undefined;
    return { object, path: [root.name, within.name, object.name], isView: view !== undefined };
  }

  #named(all: readonly Node[] | undefined, name: string): Node | undefined {
    const { foldInSql } = this.#engine;
    return all?.find((node) => foldInSql(node.name) === foldInSql(name));
  }

  #record(path: Path, view: Node): object {
    const { name, version, comment, sourcePath } = view;
    const source = this.#resolve(sourcePath);
    return {
      name,
      version,
      comment,
      columns: [{ name: 'c', position: 1, type: this.#engine.countType }],
      dependsOn: source ? [viewPath(source.path, source.isView)] : [],
      uri: viewPath([...path.slice(0, -1), name], true),
    };
  }

  #create({ path, sourcePath, put, comment }: Extract<ViewCommand, { do: 'view' }>, database: Node): Expected {
    const name = path.at(-1) as string;
    if (isUnusable(this.#engine, path)) return refuse('INVALID_NAME');
    if (!this.#resolve(sourcePath)) return refuse('SQL_INVALID');
    const exact = database.views.find((candidate) => candidate.name === name);
    if (exact && put) return ok({ ...this.#record(path, exact), created: false }, 201);
    const nameConflict = takenIn(database, name);
    if (nameConflict) return nameConflict;
    const view = node(name, { sourcePath, comment: comment ?? null });
    database.views.push(view);
    return ok({ ...this.#record(path, view), created: true }, 201);
  }

  #patch(path: Path, view: Node, sourcePath: Path): Expected {
    if (sourcePath.join('\0') === view.sourcePath.join('\0')) return ok(this.#record(path, view));
    for (let source = this.#resolve(sourcePath); ; source = this.#resolve(source.object.sourcePath)) {
      if (!source || source.object === view) {
        if (source || !this.#resolve(sourcePath)) return refuse('SQL_INVALID');
        break;
      }
    }
    view.sourcePath = sourcePath;
    view.version++;
    return ok(this.#record(path, view));
  }

  #rename(path: Path, view: Node, database: Node, newName: string): Expected {
    if (isUnusable(this.#engine, [...path.slice(0, -1), newName])) return refuse('INVALID_NAME');
    if (newName !== view.name && this.needFromOutside(view)) return refuse('IN_USE');
    const nameConflict = takenIn(database, newName, view);
    if (nameConflict) return nameConflict;
    if (newName !== view.name) view.version++;
    view.name = newName;
    return ok(this.#record(path, view));
  }

  #undrop({ path, newName }: Extract<ViewCommand, { do: 'viewUndrop' }>, database: Node): Expected {
    const oldName = path.at(-1) as string;
    const view = database.droppedViews.findLast(({ name }) => name === oldName);
    if (!view) return refuse('OBJECT_NOT_FOUND', 404, { category: 'views', name: oldName });
    const name = newName ?? oldName;
    if (isUnusable(this.#engine, [...path.slice(0, -1), name])) return refuse('INVALID_NAME');
    if (!this.#resolve(view.sourcePath)) return refuse('SQL_INVALID');
    const nameConflict = takenIn(database, name);
    if (nameConflict) return nameConflict;
    database.droppedViews.splice(database.droppedViews.indexOf(view), 1);
    database.views.push(view);
    view.name = name;
    view.version++;
    return ok(this.#record(path, view));
  }
}

const isView = ({ sourcePath }: Node) => sourcePath.length > 0;
const all = (object: Node): Node[] => [object, ...[...object.children, ...object.views].flatMap(all)];

function takenIn(database: Node, name: string, exceptNode?: Node): Expected | undefined {
  const siblings = [...database.children, ...database.views];
  const sameNamed = siblings.find((sibling) => sibling !== exceptNode && foldName(sibling.name) === foldName(name));
  return sameNamed && refuse('OBJECT_ALREADY_EXISTS', 400, { name: sameNamed.name });
}

/** The URI of a table or of a view. */
export const viewPath = (path: Path, isOfView: boolean) =>
  isOfView ? pathText(path.slice(0, 2), false, 'views', ...path.slice(2)) : pathText(path, false);
