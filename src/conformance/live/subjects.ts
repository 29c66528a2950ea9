// What the kit exercises: collections to read, and collections in which it can create objects, from the OpenAPI document or as the user describes
// them.
import { accessPathOf } from '../document/access_path.ts';
import { child, children, elements, fieldsOf, isObject, listOf, type Node, resolve } from '../document/nodes.ts';
import { type OpenApiDocument, type Operation, type PathItem, readOpenApi } from '../document/openapi.ts';
import { isPlural } from '../document/plural.ts';
import { shapesOf } from '../document/shapes.ts';

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
  bodyOf(name: string): Fields;
  /** A change of one text field. */
  readonly update: Fields | undefined;
}

export interface Subjects {
  /** Paths of collections that GET lists. */
  readonly reads: readonly string[];
  /** A collection, of those to read, for which no PATCH is declared. */
  readonly withoutPatch: string | undefined;
  /** Whether the document says that reads need credentials. Undefined: it says nothing. */
  readonly needsCredentials: boolean | undefined;
  readonly subjects: readonly Subject[];
}

/** More are not exercised by themselves: they cost time, and further ones show nothing else. */
const subjectsMax = 10;
/** Of a path parameter that is no name. */
const idForm = /^id$|(?:Id|_id|ID)$/;
const allCreations: readonly CreationPath[] = (['POST', 'PUT'] as const).flatMap((method) =>
  (['collection', 'create', 'object'] as const).map((place) => ({ method, place })),
);
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
  const subjects = described.map(({ collection, create, update }): Subject => {
    const declared = read ? creationsOf(items, collection) : [];
    return {
      collection,
      creations: declared.length > 0 ? declared : allCreations,
      bodyOf: (name) => fieldsOf(named(create, name)),
      update,
    };
  });
  const found = read && described.length === 0 ? collections.flatMap((item) => subjectOf(read, items, item)) : [];
  const reads = [
    ...new Set([...described.map(({ collection }) => collection), ...collections.map(({ fullPath }) => fullPath)]),
  ];
  return {
    reads,
    withoutPatch: reads.find((path) => !items.get(path)?.methods.includes('patch')),
    needsCredentials: read && collections[0] ? needsCredentials(read, collections[0]) : undefined,
    subjects: [...subjects, ...found.slice(0, subjectsMax)],
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
const objectItem = (items: ReadonlyMap<string, PathItem>, collection: string): PathItem | undefined =>
  [...items.values()].find(
    ({ fullPath }) =>
      fullPath.startsWith(`${collection}/{`) &&
      fullPath.endsWith('}') &&
      !fullPath.slice(collection.length + 1).includes('/'),
  );

function creationsOf(items: ReadonlyMap<string, PathItem>, collection: string): CreationPath[] {
  const places = {
    collection: items.get(collection),
    create: items.get(`${collection}/create`),
    object: objectItem(items, collection),
  };
  return allCreations.filter(({ method, place }) =>
    places[place]?.methods.includes(method === 'POST' ? 'post' : 'put'),
  );
}

/** The schema and the examples of a body in JSON. */
function jsonBody(
  document: OpenApiDocument,
  operation: Operation | undefined,
): { schema: Node; example: Fields } | undefined {
  const content = operation?.body?.contents.find(({ mediaType }) => mediaType === 'application/json');
  if (!content?.schema) return undefined;
  const media = child(document.root, ...content.at);
  const { example, examples } = fieldsOf(media?.value);
  const first = Object.values(fieldsOf(examples))[0];
  const { example: inSchema } = fieldsOf(resolve(document.root, content.schema)?.value);
  return { schema: content.schema, example: fieldsOf(example ?? fieldsOf(first).value ?? inSchema) };
}

function subjectOf(document: OpenApiDocument, items: ReadonlyMap<string, PathItem>, item: PathItem): Subject[] {
  const object = objectItem(items, item.fullPath);
  if (!object?.methods.includes('delete') || !object.methods.includes('get')) return [];
  if (idForm.test(/\{([^{}]*)\}$/.exec(object.fullPath)?.[1] ?? '')) return [];
  const creations = creationsOf(items, item.fullPath);
  const post = [item, items.get(`${item.fullPath}/create`)]
    .flatMap((each) => each?.operations ?? [])
    .find(({ method }) => method === 'post');
  const body = jsonBody(document, post);
  if (!body) return [];
  // The alternative that requires least.
  const [shape] = [...shapesOf(document.root, body.schema)].sort((a, b) => a.required.size - b.required.size);
  if (!shape?.fields.has('name') || [...shape.required].some((name) => name !== 'name')) return [];
  return [
    {
      collection: item.fullPath,
      creations,
      bodyOf: (name) => ({ name }),
      update: updateOf(
        document,
        object.operations.find(({ method }) => method === 'patch'),
      ),
    },
  ];
}

/** A change of the first field that may be any text. */
function updateOf(document: OpenApiDocument, patch: Operation | undefined): Fields | undefined {
  const body = jsonBody(document, patch);
  const [shape] = body ? shapesOf(document.root, body.schema) : [];
  for (const [name, field] of shape?.fields ?? []) {
    if (name === 'name' || !isFreeText(document, field)) continue;
    return { [name]: 'Changed by conform.' };
  }
  return undefined;
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
