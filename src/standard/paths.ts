// The router (rest-standard A1, B1): /api/{version}/{category}/{object}/.../{action}. Built from the declared categories; resolves a
// method and path to an endpoint, or to API_NOT_FOUND or METHOD_NOT_ALLOWED.
import type { ApiVersion, Category, Endpoint, PathParameters, Segment } from './endpoint.ts';
import { Failure } from './failure.ts';

export type { Segment };

export const segment = <const K extends string>(category: K, name: string): Segment<K> => ({ category, name });

/** The index of the first name, after the empty segment, `api` and the version. */
const firstNameIndex = 3;

/** `/api/v2/catalogs/a%2Fb/databases/x`: the URI of an object. */
export function uriOf(version: string, path: readonly Segment[]): string {
  let uri = `/api/${version}`;
  for (const { category, name } of path) uri += `/${category}/${encodeURIComponent(name)}`;
  return uri;
}

/** The inverse of `uriOf`: the objects in a URI of this API; a trailing collection segment is ignored. */
export function segmentsOfUri(uri: string): Segment[] {
  const names = uri.split('/').slice(firstNameIndex);
  const segments: Segment[] = [];
  for (let i = 0; i + 1 < names.length; i += 2) {
    segments.push({ category: names[i] as string, name: decodeURIComponent(names[i + 1] as string) });
  }
  return segments;
}

export interface Route<Context> {
  readonly version: ApiVersion;
  readonly category: Category<Context>;
  readonly endpoint: Endpoint<Context>;
  readonly path: PathParameters;
  readonly ifExists: 'fail' | 'return';
  /** The name in the path of `PUT /{collection}/{object}`. */
  readonly nameInPath?: string;
  /** The full path of the collection or object, with default parents, for page tokens and permissions. */
  readonly segments: readonly Segment[];
}

interface Node<Context> {
  readonly category: Category<Context>;
  readonly children: Map<string, Node<Context>>;
  /** The endpoints of a path that ends at this node, by version. */
  readonly ends: Map<ApiVersion, NodeEndpoints<Context>>;
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** The endpoint for each method of one path. */
type EndpointsByMethod<Context> = Partial<Record<Method, Endpoint<Context>>>;

interface NodeEndpoints<Context> {
  readonly collection: EndpointsByMethod<Context>;
  readonly object: EndpointsByMethod<Context>;
  /** Keyed by the name of the action. */
  readonly objectActions: ReadonlyMap<string, EndpointsByMethod<Context>>;
  readonly collectionActions: ReadonlyMap<string, EndpointsByMethod<Context>>;
}

const noEndpoints = {};
const cachedMax = 2000;
const cachedCharactersMax = 500;

export class Routes<Context> {
  readonly #root = new Map<string, Node<Context>>();
  /** Cache of resolved routes, which are immutable. */
  readonly #cache = new Map<string, Route<Context>>();
  readonly versions: readonly ApiVersion[];

  constructor(categories: readonly Category<Context>[]) {
    const nodes = categories.map((category) => ({ category, children: new Map(), ends: new Map() }) as Node<Context>);
    const byName = new Map(nodes.map((node) => [node.category.name, node]));
    for (const node of nodes) {
      const { name, parent, parentDefault } = node.category;
      if (parent === undefined) this.#root.set(name, node);
      else byName.get(parent)?.children.set(name, node);
      if (parentDefault !== undefined) this.#root.set(name, node);
    }
    const since = categories.flatMap((category) => category.endpoints.map((endpoint) => endpoint.since));
    this.versions = [...new Set(since)].sort((a, b) => Number(a.slice(1)) - Number(b.slice(1)));
    for (const { category, ends } of nodes) {
      for (const version of this.versions) {
        ends.set(version, endpointsOfNode(category.endpoints.filter((endpoint) => isInVersion(endpoint, version))));
      }
    }
  }

  /**
   * `path` is the raw path of the request, without its query. Throws API_NOT_FOUND, or METHOD_NOT_ALLOWED with the supported methods.
   */
  resolve(method: string, path: string): Route<Context> {
    const key = `${method} ${path}`;
    const cached = this.#cache.get(key);
    if (cached) return cached;
    const route = this.#resolve(method, path);
    if (key.length <= cachedCharactersMax) {
      // Cleared at once: evicting single entries would make the map rehash repeatedly.
      if (this.#cache.size >= cachedMax) this.#cache.clear();
      this.#cache.set(key, route);
    }
    return route;
  }

  #resolve(method: string, path: string): Route<Context> {
    const { version, node, segments, parameters, last } = this.#walk(path);
    const { collection, object, objectActions, collectionActions } = node.ends.get(version) as NodeEndpoints<Context>;
    const lookedUp = method === 'HEAD' ? 'GET' : method;
    const { category } = node;
    const ifExists = lookedUp === 'PUT' ? 'return' : 'fail';
    const pick = (choices: EndpointsByMethod<Context>): Endpoint<Context> => {
      const endpoint = Object.hasOwn(choices, lookedUp) ? choices[lookedUp as Method] : undefined;
      if (!endpoint) throw this.#methodFailure(method, Object.keys(choices) as Method[]);
      return endpoint;
    };
    const route = (endpoint: Endpoint<Context>): Route<Context> => ({
      version,
      category,
      endpoint,
      path: parameters,
      ifExists,
      segments,
    });

    if (last === undefined) return route(pick(collection));
    const { name, isObject } = last;
    // The path ends in an action of the object in `segments`.
    if (isObject) return route(pick(objectActions.get(name) ?? noEndpoints));
    const actions = collectionActions.get(name) ?? noEndpoints;
    // The last segment is an action when the collection has an action of that name, otherwise an object.
    const isAction = collectionActions.has(name);
    if (isAction && Object.hasOwn(actions, lookedUp)) return route(pick(actions));
    const isShadowed = isAction && lookedUp === 'PUT';
    if (isShadowed || !Object.hasOwn(object, lookedUp)) {
      const all = allMethods({ ...object, ...actions });
      throw this.#methodFailure(method, isAction ? all.filter((m) => m !== 'PUT' || Object.hasOwn(actions, m)) : all);
    }
    const endpoint = pick(object);
    if (endpoint.verb === 'create') return { ...route(endpoint), nameInPath: name };
    parameters[category.parameter] = name;
    segments.push({ category: category.name, name });
    return route(endpoint);
  }

  /** Walks the segments; `last` is the last segment unless it is a collection. */
  #walk(path: string) {
    const names = path.split('/');
    if (names.length <= firstNameIndex || names[0] !== '' || names[1] !== 'api') throw notFound();
    // The HTTP parser passes raw bytes on as Latin-1, which would be a different name than the caller intended.
    if (/[^\x21-\x7e]/.test(path)) throw notFound();
    const version = names[2] as ApiVersion;
    if (!this.versions.includes(version)) throw notFound();
    for (let i = firstNameIndex; i < names.length; i++) names[i] = decodeSegment(names[i] as string);

    let children = this.#root;
    let node: Node<Context> | undefined;
    const segments: Segment[] = [];
    const parameters: Record<string, string> = {};
    let i = firstNameIndex;
    for (;;) {
      // `names[i]` must be a category or, below an object, an action.
      const name = names[i] as string;
      const next: Node<Context> | undefined = children.get(name);
      if (!next) {
        if (node && i === names.length - 1)
          return { version, node, segments, parameters, last: { name, isObject: true } };
        throw notFound();
      }
      node = next;
      const { category } = node;
      if (i === firstNameIndex && category.parent !== undefined && category.parentDefault !== undefined) {
        segments.push({ category: category.parent, name: category.parentDefault });
        parameters[parameterOf(this.#root, category.parent)] = category.parentDefault;
      }
      const object = names[++i];
      if (object === undefined) return { version, node, segments, parameters, last: undefined };
      if (++i === names.length) return { version, node, segments, parameters, last: { name: object, isObject: false } };
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
      `${method.slice(0, 20)} is not supported by this URI; it supports ${all.join(', ')}`,
      {
        allow: all,
      },
    );
  }
}

function parameterOf<Context>(root: Map<string, Node<Context>>, category: string): string {
  return (root.get(category) as Node<Context>).category.parameter;
}

export function isInVersion(endpoint: Pick<Endpoint, 'since' | 'until'>, version: ApiVersion): boolean {
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

const allMethods = <Context>(choices: EndpointsByMethod<Context>) => Object.keys(choices) as Method[];

function collectionChoices<Context>(endpoints: readonly Endpoint<Context>[]): EndpointsByMethod<Context> {
  const choices: EndpointsByMethod<Context> = {};
  for (const endpoint of endpoints) {
    if (endpoint.verb === 'list') choices.GET = endpoint;
    if (endpoint.verb === 'create') {
      choices.POST = endpoint;
      if (endpoint.named !== false) choices.PUT = endpoint;
    }
  }
  return choices;
}

function objectChoices<Context>(endpoints: readonly Endpoint<Context>[]): EndpointsByMethod<Context> {
  const choices: EndpointsByMethod<Context> = {};
  for (const endpoint of endpoints) {
    if (endpoint.verb === 'get') choices.GET = endpoint;
    if (endpoint.verb === 'create' && endpoint.named !== false) choices.PUT = endpoint;
    if (endpoint.verb === 'update') choices.PATCH = endpoint;
    if (endpoint.verb === 'delete') choices.DELETE = endpoint;
  }
  return choices;
}

function endpointsOfNode<Context>(endpoints: readonly Endpoint<Context>[]): NodeEndpoints<Context> {
  const names = (on: Endpoint['on']) => {
    const declared = endpoints.flatMap((endpoint) =>
      endpoint.on === on && endpoint.action !== undefined ? [endpoint.action] : [],
    );
    return new Set([...declared, 'create']);
  };
  const actions = (on: Endpoint['on']) => {
    const found = new Map<string, EndpointsByMethod<Context>>();
    for (const name of names(on)) {
      const choices = actionChoices(endpoints, on, name);
      if (Object.keys(choices).length > 0) found.set(name, choices);
    }
    return found;
  };
  return {
    collection: collectionChoices(endpoints),
    object: objectChoices(endpoints),
    objectActions: actions('object'),
    collectionActions: actions('collection'),
  };
}

/** `create` is an action of every collection that creates by name. */
function actionChoices<Context>(
  endpoints: readonly Endpoint<Context>[],
  on: Endpoint['on'],
  name: string,
): EndpointsByMethod<Context> {
  const choices: EndpointsByMethod<Context> = {};
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
