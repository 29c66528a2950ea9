// The grammar of paths (rest-standard A1, B1): /api/{version}/{category}/{object}/.../{action}. Built from the declared
// categories; says which endpoint a method and path name, or that the path or the method is not one of ours.
import type { ApiVersion, Category, Endpoint, PathParameters } from './endpoint.ts';
import { Failure } from './failure.ts';

/** Empty, `api` and the version come before the names. */
const namesFrom = 3;

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

/** The other way round: the objects that a URI of ours names; an odd last segment, a collection, is left out. */
export function segmentsOfUri(uri: string): Segment[] {
  const names = uri.split('/').slice(namesFrom);
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
  /** The collection or object as a path with its parents, defaults filled in: what page tokens and permissions hang on. */
  readonly segments: readonly Segment[];
}

interface Node<Context> {
  readonly category: Category<Context>;
  readonly children: Map<string, Node<Context>>;
  /** What a path that ends here can mean, in each version. */
  readonly ends: Map<ApiVersion, Ends<Context>>;
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** Which endpoint each method names, at one path. */
type Choices<Context> = Partial<Record<Method, Endpoint<Context>>>;

interface Ends<Context> {
  readonly collection: Choices<Context>;
  readonly object: Choices<Context>;
  /** By the action's name. */
  readonly objectActions: ReadonlyMap<string, Choices<Context>>;
  readonly collectionActions: ReadonlyMap<string, Choices<Context>>;
}

const noChoices = {};
const knownMax = 2000;
const knownCharactersMax = 500;

export class Routes<Context> {
  readonly #root = new Map<string, Node<Context>>();
  /** Routes lately found. They are never changed. */
  readonly #known = new Map<string, Route<Context>>();
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
        ends.set(version, endsOf(category.endpoints.filter((endpoint) => isIn(endpoint, version))));
      }
    }
  }

  /**
   * `path` is the raw path of the request, without its query. Throws API_NOT_FOUND, or METHOD_NOT_ALLOWED with the methods
   * that the path has.
   */
  resolve(method: string, path: string): Route<Context> {
    const key = `${method} ${path}`;
    const known = this.#known.get(key);
    if (known) return known;
    const route = this.#resolve(method, path);
    if (key.length <= knownCharactersMax) {
      // All at once: a map whose entries go one by one is made anew all the time.
      if (this.#known.size >= knownMax) this.#known.clear();
      this.#known.set(key, route);
    }
    return route;
  }

  #resolve(method: string, path: string): Route<Context> {
    const { version, node, segments, parameters, last } = this.#walk(path);
    const { collection, object, objectActions, collectionActions } = node.ends.get(version) as Ends<Context>;
    const wanted = method === 'HEAD' ? 'GET' : method;
    const { category } = node;
    const ifExists = wanted === 'PUT' ? 'return' : 'fail';
    const pick = (choices: Choices<Context>): Endpoint<Context> => {
      const endpoint = Object.hasOwn(choices, wanted) ? choices[wanted as Method] : undefined;
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
    // The path ends in an action of the object that the segments already name.
    if (isObject) return route(pick(objectActions.get(name) ?? noChoices));
    const actions = collectionActions.get(name) ?? noChoices;
    // Where a PUT's (or POST's) last segment is an action of the collection, it is the action; else it is an object.
    const isAction = collectionActions.has(name);
    if (isAction && Object.hasOwn(actions, wanted)) return route(pick(actions));
    const hidden = isAction && wanted === 'PUT';
    if (hidden || !Object.hasOwn(object, wanted)) {
      const all = allMethods({ ...object, ...actions });
      throw this.#methodFailure(method, isAction ? all.filter((m) => m !== 'PUT' || Object.hasOwn(actions, m)) : all);
    }
    const endpoint = pick(object);
    if (endpoint.verb === 'create') return { ...route(endpoint), nameInPath: name };
    parameters[category.parameter] = name;
    segments.push({ category: category.name, name });
    return route(endpoint);
  }

  /** Follows categories and objects; `last` is the last segment where it is not simply a collection. */
  #walk(path: string) {
    const names = path.split('/');
    if (names.length <= namesFrom || names[0] !== '' || names[1] !== 'api') throw notFound();
    // The parser lets raw bytes through as Latin-1: read as they stand, they would be another name than the caller meant.
    if (/[^\x21-\x7e]/.test(path)) throw notFound();
    const version = names[2] as ApiVersion;
    if (!this.versions.includes(version)) throw notFound();
    for (let i = namesFrom; i < names.length; i++) names[i] = decodeSegment(names[i] as string);

    let children = this.#root;
    let node: Node<Context> | undefined;
    const segments: Segment[] = [];
    const parameters: Record<string, string> = {};
    let i = namesFrom;
    for (;;) {
      // `names[i]` stands where a category (or, below an object, an action) must stand.
      const name = names[i] as string;
      const next: Node<Context> | undefined = children.get(name);
      if (!next) {
        if (node && i === names.length - 1)
          return { version, node, segments, parameters, last: { name, isObject: true } };
        throw notFound();
      }
      node = next;
      const { category } = node;
      if (i === namesFrom && category.parent !== undefined && category.parentDefault !== undefined) {
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

function endsOf<Context>(endpoints: readonly Endpoint<Context>[]): Ends<Context> {
  const names = (on: Endpoint['on']) => {
    const declared = endpoints.flatMap((one) => (one.on === on && one.action !== undefined ? [one.action] : []));
    return new Set([...declared, 'create']);
  };
  const actions = (on: Endpoint['on']) => {
    const found = new Map<string, Choices<Context>>();
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
