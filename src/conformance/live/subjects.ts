// What the kit exercises: collections to read, and collections in which it can create objects, from the OpenAPI document or as the user describes
// them.
import { accessPathOf } from '../document/access_path.ts';
import { child, children, elements, fieldsOf, isObject, listOf, type Node, resolve } from '../document/nodes.ts';
import { type OpenApiDocument, type Operation, type PathItem, readOpenApi } from '../document/openapi.ts';
import { isPlural } from '../document/plural.ts';
import { shapesOf } from '../document/shapes.ts';
import { type CreationBody, creationBodies, jsonBody, type Update } from './bodies.ts';

type Fields = Readonly<Record<string, unknown>>;

export interface CreationPath {
  readonly method: 'POST' | 'PUT';
  /** `object`: the path of the object itself. */
  readonly place: 'collection' | 'create' | 'object';
}

/** A collection in which objects can be created by a name. */
export interface Subject {
  readonly collection: string;
  /** Tried one after the other. */
  readonly creations: readonly CreationPath[];
  readonly body: CreationBody;
  /** A change of one text field. */
  readonly update: Update | undefined;
}

/** A category in which objects can be created, and those below its objects. */
export interface Creatable extends Omit<Subject, 'body'> {
  /** Tried one after the other. At least one. */
  readonly bodies: readonly CreationBody[];
  /** By the segment of the category. */
  readonly below: readonly { readonly category: string; readonly creatable: Creatable }[];
  /** Below it, at any depth. */
  readonly unsatisfied: readonly Unsatisfied[];
}

type Items = ReadonlyMap<string, PathItem>;

export interface Subjects {
  /** Paths of collections that GET lists. */
  readonly reads: readonly string[];
  /** A collection, of those to read, for which no PATCH is declared. */
  readonly withoutPatch: string | undefined;
  /** Whether the document says that reads need credentials. Undefined: it says nothing. */
  readonly needsCredentials: boolean | undefined;
  readonly subjects: readonly Creatable[];
  /** Categories in which nothing is created, of those without a parameter in their path. */
  readonly unsatisfied: readonly Unsatisfied[];
}

/** More are not exercised by themselves: they cost time, and further ones show nothing else. */
const subjectsMax = 10;
/** Of a path parameter that is no name. */
const idForm = /^id$|(?:Id|_id|ID)$/;
const allCreations: readonly CreationPath[] = (['POST', 'PUT'] as const).flatMap((method) =>
  (['collection', 'create', 'object'] as const).map((place) => ({ method, place })),
);
/** Fields whose texts mean nothing to a service. */
const forPeople: ReadonlySet<string> = new Set(['comment', 'description', 'note', 'notes', 'remark', 'summary']);
const namePlaceholder = '{name}';

export interface DescribedSubject {
  readonly collection: string;
  /** The body of a creation, in which the text `{name}` is replaced. */
  readonly create: Fields;
  readonly update: Fields | undefined;
}

/** Replaces the placeholder in every text of a value. */
const named = (value: unknown, name: string): unknown => {
  if (typeof value === 'string') return value.replaceAll(namePlaceholder, name);
  if (Array.isArray(value)) return value.map((each) => named(each, name));
  return isObject(value)
    ? Object.fromEntries(Object.entries(value).map(([key, each]) => [key, named(each, name)]))
    : value;
};

/** @param described what the user says about collections; these are then the only ones in which objects are created. */
export function subjectsOf(document: unknown, described: readonly DescribedSubject[]): Subjects {
  const read = document === undefined ? undefined : readOpenApi(document);
  const items = new Map((read?.pathItems ?? []).map((item) => [item.fullPath, item]));
  const collections = [...items.values()].filter(isListed);
  const subjects = described.map(({ collection, create, update }): Creatable => {
    const declared = read ? creationsOf(items, collection) : [];
    return {
      collection,
      creations: declared.length > 0 ? declared : allCreations,
      bodies: [{ of: (name) => fieldsOf(named(create, name)), isGuessed: false }],
      update: update && { fields: update, isGuessed: false },
      below: [],
      unsatisfied: [],
    };
  });
  const found =
    read && described.length === 0 ? collections.flatMap((item) => creatableOf(read, items, item) ?? []) : [];
  const creatable = found.flatMap((each) => ('bodies' in each ? [each] : []));
  const reads = [
    ...new Set([...described.map(({ collection }) => collection), ...collections.map(({ fullPath }) => fullPath)]),
  ];
  return {
    reads,
    withoutPatch: reads.find((path) => !items.get(path)?.methods.includes('patch')),
    needsCredentials: read && collections[0] ? needsCredentials(read, collections[0]) : undefined,
    subjects: [...subjects, ...creatable.slice(0, subjectsMax)],
    unsatisfied: [
      ...found.flatMap((each) => ('bodies' in each ? [] : [each])),
      ...creatable.slice(subjectsMax).map(({ collection: path }) => ({
        path,
        reason: `only ${subjectsMax} categories without a parameter in their path are exercised`,
      })),
    ],
  };
}

/** Whether a path is a collection that GET lists, and has no parameter. */
function isListed({ fullPath, template, methods, hasBelow }: PathItem): boolean {
  const { segments, formProblems } = accessPathOf(fullPath, template, methods, hasBelow);
  const last = segments.at(-1);
  return (
    formProblems.length === 0 &&
    methods.includes('get') &&
    last?.kind === 'category' &&
    isPlural(last.text) &&
    !segments.some(({ isParameter }) => isParameter)
  );
}

function needsCredentials({ root }: OpenApiDocument, { operations }: PathItem): boolean {
  const get = operations.find(({ method }) => method === 'get');
  const own = get && child(root, ...get.at, 'security');
  const required = listOf((own ?? child(root, 'security'))?.value);
  return required.length > 0 && required.every((each) => isObject(each) && Object.keys(each).length > 0);
}

/** The path of the objects in a collection. */
const objectItem = (items: Items, collection: string): PathItem | undefined =>
  [...items.values()].find(
    ({ fullPath }) =>
      fullPath.startsWith(`${collection}/{`) &&
      fullPath.endsWith('}') &&
      !fullPath.slice(collection.length + 1).includes('/'),
  );

function creationsOf(items: Items, collection: string): CreationPath[] {
  const places = {
    collection: items.get(collection),
    create: items.get(`${collection}/create`),
    object: objectItem(items, collection),
  };
  return allCreations.filter(({ method, place }) =>
    places[place]?.methods.includes(method === 'POST' ? 'post' : 'put'),
  );
}

/** Why nothing is created in a category that can be created in, by its path in the document. */
export interface Unsatisfied {
  readonly path: string;
  readonly reason: string;
}

/** Undefined: it is no category in which objects can be created. */
function creatableOf(document: OpenApiDocument, items: Items, item: PathItem): Creatable | Unsatisfied | undefined {
  const path = item.fullPath;
  const creations = creationsOf(items, path);
  if (creations.length === 0) return undefined;
  const object = objectItem(items, path);
  if (!object) return { path, reason: 'its objects have no path of their own' };
  if (!object.methods.includes('get')) return { path, reason: 'its objects cannot be shown' };
  if (!object.methods.includes('delete')) return { path, reason: 'its objects cannot be deleted' };
  if (idForm.test(/\{([^{}]*)\}$/.exec(object.fullPath)?.[1] ?? '')) return { path, reason: 'its objects have ids' };
  const { bodies, reason } = creationBodies(document, creationOperation(items, path));
  if (bodies.length === 0) return { path, reason };
  const update = updateOf(
    document,
    object.operations.find(({ method }) => method === 'patch'),
  );
  const found = [...items.values()].filter(isCategoryBelow(object)).flatMap((each) => {
    const below = creatableOf(document, items, each);
    return below ? [{ below, category: each.fullPath.slice(each.fullPath.lastIndexOf('/') + 1) }] : [];
  });
  return {
    collection: path,
    creations,
    bodies,
    update,
    below: found.flatMap(({ below, category }) => ('bodies' in below ? [{ category, creatable: below }] : [])),
    unsatisfied: found.flatMap(({ below }) => ('bodies' in below ? below.unsatisfied : [below])),
  };
}

/** POST, or PUT where there is none: their bodies are the same. */
function creationOperation(items: Items, collection: string): Operation | undefined {
  const operations = [collection, `${collection}/create`].flatMap((path) => items.get(path)?.operations ?? []);
  return ['post', 'put'].flatMap((method) => operations.filter((operation) => operation.method === method))[0];
}

/** Documents call the same object differently in different paths. */
const anonymous = (path: string): string => path.replaceAll(/\{[^{}]*\}/g, '{}');

/** Whether a path is a category directly below an object. */
const isCategoryBelow =
  (object: PathItem) =>
  ({ fullPath, template, methods, hasBelow }: PathItem): boolean => {
    const category = fullPath.slice(fullPath.lastIndexOf('/') + 1);
    if (anonymous(fullPath) !== `${anonymous(object.fullPath)}/${category}`) return false;
    const { segments, formProblems } = accessPathOf(fullPath, template, methods, hasBelow);
    return (
      !/[{}]/.test(category) && formProblems.length === 0 && segments.at(-1)?.kind === 'category' && isPlural(category)
    );
  };

/** A change of a field that may be any text: one that is for people, if there is one, or else the first, of which the service may know more. */
function updateOf(document: OpenApiDocument, patch: Operation | undefined): Update | undefined {
  const body = jsonBody(document, patch);
  const [shape] = body ? shapesOf(document.root, body.schema) : [];
  const free = [...(shape?.fields ?? [])].filter(([name, field]) => name !== 'name' && isFreeText(document, field));
  const field = free.find(([name]) => forPeople.has(name)) ?? free[0];
  return field && { fields: { [field[0]]: 'Changed by conform.' }, isGuessed: !forPeople.has(field[0]) };
}

function isFreeText({ root }: OpenApiDocument, field: Node): boolean {
  const schema = resolve(root, field);
  if (!schema) return false;
  const { enum: values, const: constant, pattern, format } = fieldsOf(schema.value);
  if (values !== undefined || constant !== undefined || pattern !== undefined || format !== undefined) return false;
  const nested = child(schema, 'anyOf') ?? child(schema, 'oneOf');
  if (nested) return elements(nested).some((each) => isFreeText({ root } as OpenApiDocument, each));
  const shapes = shapesOf(root, schema);
  return (
    child(schema, 'properties') === undefined &&
    children(schema).length > 0 &&
    shapes.every(({ types }) => types.has('string'))
  );
}
