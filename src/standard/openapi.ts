// Generates the OpenAPI 3.1 document from the declarations: every path in both shapes, every form of create, every code that can be
// returned. It contains only what the declarations contain.
import { type Code, codes, type RequestOutcome } from './codes.ts';
import {
  type ApiVersion,
  acceptsIdempotencyKey,
  type Category,
  type Endpoint,
  isConditional,
  isMutation,
  isPaged,
  nameFieldOf,
} from './endpoint.ts';
import { bodyOf, listKeyOf, queryOf } from './parameters.ts';
import { isInVersion } from './paths.ts';
import { type TObject, type TSchema, Type } from './type.ts';

type Json = Record<string, unknown>;

export interface OpenApiInfo {
  readonly title: string;
  readonly description: string;
  readonly release: string;
  readonly version: ApiVersion;
}

/** One way to reach an endpoint. */
export interface Operation {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** A path template: `/api/v2/catalogs/{catalog}`. */
  readonly path: string;
  readonly operationId: string;
  readonly category: Category;
  readonly endpoint: Endpoint;
  /** PUT of an object: the name is in the path. */
  readonly nameInPath: boolean;
}

const pascal = (name: string) => name.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** All operations of a version, for tests and documents. */
export function operationsOf(categories: readonly Category[], version: ApiVersion): Operation[] {
  const byName = new Map(categories.map((category) => [category.name, category]));
  const isShared = (name: string) => categories.filter((one) => one.name === name).length > 1;
  return categories.flatMap((category) =>
    shapesOf(category, byName, version, isShared(category.name)).flatMap(({ base, suffix }) =>
      category.endpoints
        .filter((endpoint) => isInVersion(endpoint, version))
        .flatMap((endpoint) =>
          formsOf(category, endpoint, base).map((form) => ({
            ...form,
            operationId: form.operationId + suffix,
            category,
            endpoint,
          })),
        ),
    ),
  );
}

/** The path templates of a category's collection: complete, and without the parent that has a default. */
function shapesOf(
  category: Category,
  byName: ReadonlyMap<string, Category>,
  version: string,
  shared: boolean,
): { base: string; suffix: string }[] {
  const ancestors: Category[] = [];
  for (let parent = category.parent; parent !== undefined; parent = byName.get(parent)?.parent)
    ancestors.unshift(byName.get(parent) as Category);
  const template = (parents: readonly Category[]) =>
    `/api/${version}/${[...parents.map(({ name, parameter }) => `${name}/{${parameter}}`), category.name].join('/')}`;
  const shapes = [{ base: template(ancestors), suffix: shared ? `Of${pascal(ancestors.at(-1)?.singular ?? '')}` : '' }];
  const chain = [...ancestors, category];
  const from = chain.findIndex((one) => one.parentDefault !== undefined);
  if (from > 0)
    shapes.push({
      base: template(ancestors.slice(from)),
      suffix: `InDefault${pascal((chain[from - 1] as Category).singular)}`,
    });
  return shapes;
}

type Form = Omit<Operation, 'category' | 'endpoint'>;

function formsOf(category: Category, endpoint: Endpoint, base: string): Form[] {
  const one = pascal(category.singular);
  const many = pascal(category.name);
  const object = `${base}/{${category.parameter}}`;
  const form = (method: Operation['method'], path: string, operationId: string, nameInPath = false): Form => ({
    method,
    path,
    operationId,
    nameInPath,
  });
  switch (endpoint.verb) {
    case 'list':
      return [form('get', base, `list${many}`)];
    case 'get':
      return [form('get', object, `get${one}`)];
    case 'update':
      return [form('patch', object, `update${one}`)];
    case 'delete':
      return [form('delete', object, `delete${one}`)];
    case 'action': {
      const action = endpoint.action as string;
      const [path, noun] = endpoint.on === 'object' ? [object, one] : [base, many];
      const known = pascal(endpoint.auditName ?? action).replace(/^./, (c) => c.toLowerCase());
      return [form('post', `${path}/${action}`, known + noun)];
    }
    case 'create':
      if (endpoint.named === false) return [form('post', base, `create${many}`)];
      return [
        form('post', base, `create${one}`),
        form('put', base, `ensure${one}`),
        form('post', `${base}/create`, `create${one}ByAction`),
        form('put', `${base}/create`, `ensure${one}ByAction`),
        form('put', object, `ensure${one}ByPath`, true),
      ];
  }
}

const always: readonly Code[] = [
  'UNAUTHENTICATED',
  'FORBIDDEN',
  'API_NOT_FOUND',
  'METHOD_NOT_ALLOWED',
  'NOT_ACCEPTABLE',
  'INTERNAL_ERROR',
  'SHUTTING_DOWN',
  'RATE_LIMITED',
  'IDENTITY_PROVIDER_UNAVAILABLE',
  'INVALID_REQUEST_ID',
  'MALFORMED_HTTP',
  'HEADERS_TOO_LARGE',
  'REQUEST_TIMEOUT',
  'EXPECTATION_FAILED',
  'REPEATED_QUERY_PARAMETER',
];
const withKey: readonly Code[] = ['INVALID_IDEMPOTENCY_KEY', 'IDEMPOTENCY_KEY_REUSED'];
const withBody: readonly Code[] = [
  'INVALID_PARAMETER',
  'UNKNOWN_FIELD',
  'MALFORMED_JSON',
  'BODY_TOO_LARGE',
  'SERVER_BUSY',
  'BODY_AND_QUERY',
  'UNSUPPORTED_MEDIA_TYPE',
];
const withoutBody: readonly Code[] = ['UNKNOWN_QUERY_PARAMETER', 'BODY_NOT_ALLOWED'];

/** All codes that an endpoint can return: those that follow from its shape, and its own. */
export function codesOf(endpoint: Endpoint): Code[] {
  const all = new Set<Code>([...always, ...(endpoint.body ? withBody : withoutBody), ...endpoint.codes]);
  if (acceptsIdempotencyKey(endpoint)) for (const code of withKey) all.add(code);
  if (isMutation(endpoint) || acceptsIdempotencyKey(endpoint)) all.add('STORAGE_FULL');
  if (isMutation(endpoint)) all.add('INVALID_PARAMETER');
  if (queryOf(endpoint)) all.add('INVALID_PARAMETER');
  if (isConditional(endpoint)) for (const code of ['VERSION_CONFLICT', 'INVALID_PARAMETER'] as const) all.add(code);
  if (isPaged(endpoint)) all.add('INVALID_PAGE_TOKEN');
  if (endpoint.bodyRequired) all.add('EMPTY_BODY');
  if (endpoint.mayAccept) all.add('TOO_MANY_TASKS');
  if (endpoint.on === 'object' && endpoint.verb !== 'delete') all.add('OBJECT_NOT_FOUND');
  return [...all].sort();
}

export function openApi(categories: readonly Category[], info: OpenApiInfo): Json {
  const paths: Record<string, Json> = {};
  const responses: Shared = {};
  for (const operation of operationsOf(categories, info.version)) {
    const pathItem = paths[operation.path] ?? {};
    pathItem[operation.method] = describeOperation(operation, responses);
    paths[operation.path] = pathItem;
  }
  return {
    openapi: '3.1.0',
    info: {
      title: info.title,
      description: info.description,
      version: info.release,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'The server that serves this document.' }],
    security: [{ bearer: [] }, { basic: [] }],
    tags: categories.map(({ title, doc }) => ({ name: title, description: doc })),
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' }, basic: { type: 'http', scheme: 'basic' } },
      parameters: { requestId, idempotencyKey },
      responses,
      schemas: {
        Failure: failure,
        Accepted: accepted,
        ...Object.fromEntries(categories.map((one) => [schemaName(one), one.record])),
      },
    },
  };
}

const requestId = {
  name: 'x-service-request-id',
  in: 'header',
  required: false,
  description: 'Returned in the response and written to the log; generated if absent.',
  schema: { type: 'string', minLength: 1, maxLength: 128 },
};

const idempotencyKey = {
  name: 'x-service-idempotency-key',
  in: 'header',
  required: false,
  description:
    'Repeating a request with the same key within 24 hours returns the first response without applying the request again.',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
};

const failure = Type.Object({
  code: Type.String(),
  message: Type.String({ description: 'A short, human-readable message.' }),
  result: Type.Object({}, { additionalProperties: true, description: 'Details, such as `violations`.' }),
});

const accepted = Type.Object(
  { taskId: Type.String(), state: Type.String(), uri: Type.String(), cancelUri: Type.String() },
  { additionalProperties: true },
);

const schemaName = (category: Category) => pascal(category.singular);
const reference = (category: Category) => ({ $ref: `#/components/schemas/${schemaName(category)}` });

function describeOperation(operation: Operation, shared: Shared): Json {
  const { endpoint, category, method, operationId } = operation;
  const body = requestBody(operation);
  return {
    operationId,
    tags: [category.title],
    summary: endpoint.summary,
    ...(endpoint.deprecated ? { deprecated: true } : {}),
    ...(endpoint.description === undefined ? {} : { description: endpoint.description }),
    'x-permission': endpoint.permission,
    'x-codes': codesOf(endpoint),
    parameters: [
      ...pathParameters(operation),
      ...queryParameters(endpoint),
      { $ref: '#/components/parameters/requestId' },
      ...(acceptsIdempotencyKey(endpoint) ? [{ $ref: '#/components/parameters/idempotencyKey' }] : []),
    ],
    ...(body && method !== 'get' && method !== 'delete' ? { requestBody: body } : {}),
    responses: { ...successes(operation), ...failures(endpoint, shared) },
  };
}

function pathParameters({ path }: Operation): Json[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    description: 'The name of the object, percent-encoded.',
    schema: { type: 'string' },
  }));
}

function queryParameters(endpoint: Endpoint): Json[] {
  return Object.entries(queryOf(endpoint)?.properties ?? {}).map(([name, schema]) => ({
    name,
    in: 'query',
    required: false,
    schema,
  }));
}

function requestBody({ endpoint, nameInPath }: Operation): Json | undefined {
  const schema = bodyOf(endpoint, !nameInPath);
  if (!schema) return undefined;
  const example = endpoint.example?.body as Json | undefined;
  const { [nameFieldOf(endpoint)]: _name, ...unnamed } = example ?? {};
  const content: Json = {
    'application/json': { schema, ...(example ? { example: nameInPath ? unnamed : example } : {}) },
  };
  for (const type of Object.keys(endpoint.textBodies ?? {})) content[type] = { schema: { type: 'string' } };
  return { required: endpoint.bodyRequired ?? false, content };
}

function successes({ endpoint, category }: Operation): Json {
  const envelope = (result: unknown, example?: unknown) => ({
    description: 'Success.',
    headers: { 'x-service-request-id': { schema: { type: 'string' } } },
    content: {
      'application/json': {
        schema: {
          type: 'object',
          required: ['code', 'message', 'result'],
          properties: { code: { const: '0' }, message: { const: 'OK' }, result },
        },
        ...(example === undefined ? {} : { example: { code: '0', message: 'OK', result: example } }),
      },
    },
  });
  const accept = endpoint.mayAccept
    ? { 202: { ...envelope({ $ref: '#/components/schemas/Accepted' }), description: 'A task was submitted.' } }
    : {};
  const [status, schema, example] = successOf(endpoint, category);
  return { [status]: envelope(schema, endpoint.example?.result ?? example), ...accept };
}

function successOf(endpoint: Endpoint, category: Category): [200 | 201, unknown, unknown] {
  const record = reference(category);
  const created = {
    type: 'object',
    properties: { created: { type: 'boolean', description: 'False if the object already existed.' } },
  };
  const key = listKeyOf(category);
  switch (endpoint.verb) {
    case 'list': {
      const properties = { [key]: { type: 'array', items: record }, nextPageToken: { type: 'string' } };
      return [200, { type: 'object', required: [key], properties }, { [key]: [category.example] }];
    }
    case 'create':
      return [
        201,
        endpoint.result ?? { allOf: [record, created] },
        endpoint.result ? undefined : { ...category.example, created: true },
      ];
    case 'delete':
      return [
        200,
        { type: 'object', required: ['deleted'], properties: { deleted: { type: 'boolean' } } },
        { deleted: true },
      ];
    case 'get':
    case 'update':
      return [200, endpoint.result ?? record, category.example];
    case 'action':
      return [
        endpoint.creates ? 201 : 200,
        endpoint.result === category.record ? record : (endpoint.result ?? {}),
        exampleOf(endpoint, category),
      ];
  }
}

function exampleOf(endpoint: Endpoint, category: Category): unknown {
  if (endpoint.result === (category.record as TSchema)) return category.example;
  const key = listKeyOf(category);
  return Object.hasOwn((endpoint.result as TObject | undefined)?.properties ?? {}, key)
    ? { [key]: [category.example] }
    : undefined;
}

const withRequestOutcome = {
  type: 'object',
  required: ['outcome'],
  properties: {
    outcome: {
      enum: ['notApplied', 'unknown'] satisfies RequestOutcome[],
      description:
        'Whether the request changed nothing (`notApplied`), or may have been applied or may still be (`unknown`).',
    },
  },
};

/** Failure responses, shared by all operations with the same codes for a status. */
type Shared = Record<string, Json>;

/** One response for each status, with its possible codes. */
function failures(endpoint: Endpoint, shared: Shared): Json {
  const byStatus = new Map<number, Code[]>();
  for (const code of codesOf(endpoint)) {
    byStatus.set(codes[code].status, [...(byStatus.get(codes[code].status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, possible]) => [
      status,
      { $ref: `#/components/responses/${responseName(status, possible, shared)}` },
    ]),
  );
}

/** The name of the shared response for these codes, which is added unless it exists. */
function responseName(status: number, possible: readonly Code[], shared: Shared): string {
  const description = possible.join(', ');
  const known = Object.keys(shared).find((name) => shared[name]?.description === description);
  if (known !== undefined) return known;
  const count = Object.keys(shared).filter((one) => one.startsWith(`Failure${status}`)).length;
  const name = `Failure${status}_${count + 1}`;
  const properties = { code: { enum: possible }, ...(status >= 500 ? { result: withRequestOutcome } : {}) };
  const schema = { allOf: [{ $ref: '#/components/schemas/Failure' }, { type: 'object', properties }] };
  const first = possible[0] as Code;
  const { meaning, outcome } = codes[first];
  const example = { code: first, message: meaning, result: outcome ? { outcome } : {} };
  const headers =
    status === 503 ? { headers: { 'Retry-After': { description: 'Seconds.', schema: { type: 'integer' } } } } : {};
  shared[name] = { description, ...headers, content: { 'application/json': { schema, example } } };
  return name;
}
