// The grammar of paths (rest-standard A1, B1): /api/{version}/{category}/{object}/.../{action}. Built from the declared
// categories; says which endpoint a method and path name, or that the path or the method is not one of ours.
import type { ApiVersion, Category, Endpoint, PathParameters } from './endpoint.ts';
import { Failure } from './failure.ts';

export interface Segment {
  readonly category: string;
  readonly name: string;
}

/** `/api/v2/catalogs/a%2Fb/databases/x`: the URI of an object. */
export function uriOf(version: string, path: readonly Segment[]): string {
  let uri = `/api/${version}`;
  for (const { category, name } of path) uri += `/${category}/${encodeURIComponent(name)}`;
  return uri;
}

/** How a create was addressed: the name in the body or in the path. */
export type CreateForm = 'collection' | 'action' | 'object';

export interface Route<Context> {
  readonly version: ApiVersion;
  readonly category: Category<Context>;
  readonly endpoint: Endpoint<Context>;
  readonly path: PathParameters;
  readonly ifExists: 'fail' | 'return';
  /** The name in the path of `PUT /{collection}/{object}`. */
  readonly nameInPath?: string;
  /** The collection or object as a path with its parents, defaults filled in: what page tokens and permissions hang on. */
  readonly segments: readonly Segment[];
}

interface Node<Context> {
  readonly category: Category<Context>;
  readonly children: Map<string, Node<Context>>;
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** Which endpoint each method names, at one path. */
type Choices<Context> = Partial<Record<Method, Endpoint<Context>>>;

export class Routes<Context> {
  readonly #root = new Map<string, Node<Context>>();
  readonly versions: readonly ApiVersion[];

  constructor(categories: readonly Category<Context>[]) {
    const nodes = new Map(
      categories.map((category) => [category.name, { category, children: new Map() } as Node<Context>]),
    );
    for (const node of nodes.values()) {
      const { name, parent, parentDefault } = node.category;
      if (parent === undefined) this.#root.set(name, node);
      else nodes.get(parent)?.children.set(name, node);
      if (parentDefault !== undefined) this.#root.set(name, node);
    }
    const since = categories.flatMap((category) => category.endpoints.map((endpoint) => endpoint.since));
    this.versions = [...new Set(since)].sort((a, b) => Number(a.slice(1)) - Number(b.slice(1)));
  }

  /**
   * `path` is the raw path of the request, without its query. Throws API_NOT_FOUND, or METHOD_NOT_ALLOWED with the methods
   * that the path has.
   */
  resolve(method: string, path: string): Route<Context> {
    const { version, node, segments, parameters, rest } = this.#walk(path);
    const [last] = rest;
    const inVersion = node.category.endpoints.filter((endpoint) => isIn(endpoint, version));
    const wanted = method === 'HEAD' ? 'GET' : method;
    const route = (endpoint: Endpoint<Context>, extra: Partial<Route<Context>> = {}): Route<Context> => ({
      version,
      category: node.category,
      endpoint,
      path: parameters,
      ifExists: wanted === 'PUT' ? 'return' : 'fail',
      segments,
      ...extra,
    });
    const pick = (choices: Choices<Context>): Endpoint<Context> => {
      const endpoint = Object.hasOwn(choices, wanted) ? choices[wanted as Method] : undefined;
      if (!endpoint) throw this.#methodFailure(method, Object.keys(choices) as Method[]);
      return endpoint;
    };

    if (last === undefined) return route(pick(collectionChoices(inVersion)));
    const { name, isObject } = last;
    if (isObject) {
      // The path ends in an action of the object that the segments already name.
      return route(pick(actionChoices(inVersion, 'object', name)));
    }
    const actions = actionChoices(inVersion, 'collection', name);
    const objects = objectChoices(inVersion);
    // Where a PUT's (or POST's) last segment is an action of the collection, it is the action; else it is an object.
    const isAction = Object.keys(actions).length > 0;
    if (isAction && Object.hasOwn(actions, wanted)) return route(pick(actions));
    const hidden = isAction && wanted === 'PUT';
    if (hidden || !Object.hasOwn(objects, wanted)) {
      const all = allMethods({ ...objects, ...actions });
      throw this.#methodFailure(method, isAction ? all.filter((m) => m !== 'PUT' || Object.hasOwn(actions, m)) : all);
    }
    const endpoint = pick(objects);
    const path2 = { ...parameters, [node.category.parameter]: name };
    const object = [...segments, { category: node.category.name, name }];
    if (endpoint.verb === 'create') return route(endpoint, { nameInPath: name });
    return route(endpoint, { path: path2, segments: object });
  }

  /** Follows categories and objects; `rest` is the last segment where it is not simply a collection. */
  #walk(path: string) {
    const [empty, api, versionText, ...encoded] = path.split('/');
    if (empty !== '' || api !== 'api' || encoded.length === 0) throw notFound();
    // The parser lets raw bytes through as Latin-1: read as they stand, they would be another name than the caller meant.
    if (/[^\x21-\x7e]/.test(path)) throw notFound();
    const version = versionText as ApiVersion;
    if (!this.versions.includes(version)) throw notFound();
    const names = encoded.map(decodeSegment);

    let children = this.#root;
    let node: Node<Context> | undefined;
    const segments: Segment[] = [];
    const parameters: Record<string, string> = {};
    let i = 0;
    for (;;) {
      // `names[i]` stands where a category (or, below an object, an action) must stand.
      const name = names[i] as string;
      const next: Node<Context> | undefined = children.get(name);
      if (!next) {
        if (node && i === names.length - 1)
          return { version, node, segments, parameters, rest: [{ name, isObject: true }] };
        throw notFound();
      }
      node = next;
      const { category } = node;
      if (i === 0 && category.parent !== undefined && category.parentDefault !== undefined) {
        segments.push({ category: category.parent, name: category.parentDefault });
        parameters[parameterOf(this.#root, category.parent)] = category.parentDefault;
      }
      const object = names[++i];
      if (object === undefined) return { version, node, segments, parameters, rest: [] };
      if (++i === names.length)
        return { version, node, segments, parameters, rest: [{ name: object, isObject: false }] };
      segments.push({ category: category.name, name: object });
      parameters[category.parameter] = object;
      children = node.children;
    }
  }

  #methodFailure(method: string, allow: readonly Method[]): Failure {
    if (allow.length === 0) return notFound();
    const all = [...new Set([...allow, ...(allow.includes('GET') ? ['HEAD'] : []), 'OPTIONS'])].sort();
    return new Failure(
      'METHOD_NOT_ALLOWED',
      `${method.slice(0, 20)} is not a method of this URI; it has ${all.join(', ')}`,
      {
        allow: all,
      },
    );
  }
}

function parameterOf<Context>(root: Map<string, Node<Context>>, category: string): string {
  return (root.get(category) as Node<Context>).category.parameter;
}

export function isIn(endpoint: Pick<Endpoint, 'since' | 'until'>, version: ApiVersion): boolean {
  const n = Number(version.slice(1));
  return Number(endpoint.since.slice(1)) <= n && (endpoint.until === undefined || n < Number(endpoint.until.slice(1)));
}

function decodeSegment(segment: string): string {
  if (segment === '') throw notFound();
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    throw notFound();
  }
}

function notFound(): Failure {
  return new Failure('API_NOT_FOUND', 'the URI is not a registered REST API; check the path and its encoding');
}

const allMethods = <Context>(choices: Choices<Context>) => Object.keys(choices) as Method[];

function collectionChoices<Context>(endpoints: readonly Endpoint<Context>[]): Choices<Context> {
  const choices: Choices<Context> = {};
  for (const endpoint of endpoints) {
    if (endpoint.verb === 'list') choices.GET = endpoint;
    if (endpoint.verb === 'create') {
      choices.POST = endpoint;
      if (endpoint.named !== false) choices.PUT = endpoint;
    }
  }
  return choices;
}

function objectChoices<Context>(endpoints: readonly Endpoint<Context>[]): Choices<Context> {
  const choices: Choices<Context> = {};
  for (const endpoint of endpoints) {
    if (endpoint.verb === 'get') choices.GET = endpoint;
    if (endpoint.verb === 'create' && endpoint.named !== false) choices.PUT = endpoint;
    if (endpoint.verb === 'update') choices.PATCH = endpoint;
    if (endpoint.verb === 'delete') choices.DELETE = endpoint;
  }
  return choices;
}

/** `create` is an action of every collection that creates by name. */
function actionChoices<Context>(
  endpoints: readonly Endpoint<Context>[],
  on: Endpoint['on'],
  name: string,
): Choices<Context> {
  const choices: Choices<Context> = {};
  for (const endpoint of endpoints) {
    if (endpoint.on !== on) continue;
    if (endpoint.verb === 'action' && endpoint.action === name) choices.POST = endpoint;
    if (endpoint.verb === 'create' && name === 'create' && endpoint.named !== false) {
      choices.POST = endpoint;
      choices.PUT = endpoint;
    }
  }
  return choices;
}
