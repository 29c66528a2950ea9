// The declarations against the standard's own rules (rest-standard A1, A3, A5), and the OpenAPI document against itself: it is
// the committed one, its references resolve, its examples match their schemas.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { TObject, TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { type TaskType, taskResults } from '../../src/api/tasks/task_types.ts';
import { nameFault } from '../../src/model/names.ts';
import { release } from '../../src/model/release.ts';
import { apiInfo, categoriesWith } from '../../src/resources/index.ts';
import { readSettings } from '../../src/settings/read_settings.ts';
import { codes } from '../../src/standard/codes.ts';
import { actionOf, type Category } from '../../src/standard/endpoint.ts';
import { openApi } from '../../src/standard/openapi/document.ts';
import { codesOf } from '../../src/standard/openapi/endpoint_codes.ts';
import { operationsOf } from '../../src/standard/openapi/operations.ts';
import { bodyOf, parametersOf } from '../../src/standard/parameters.ts';
import { Routes } from '../../src/standard/paths.ts';

const declared = categoriesWith(readSettings([], {}));
const categories = declared as readonly Category[];
const operations = operationsOf(categories, 'v2');
const document = JSON.parse(JSON.stringify(openApi(categories, apiInfo(release)))) as {
  paths: Record<string, Record<string, DescribedOperation>>;
  components: Record<string, Record<string, object>>;
};

interface TitledSchema {
  readonly title?: string;
  readonly anyOf?: readonly TitledSchema[];
}

interface AcceptedResponse {
  readonly links: object;
  readonly content: { readonly 'application/json': { readonly schema: AcceptedSchema } };
}

interface AcceptedSchema {
  readonly $ref?: string;
  readonly allOf?: readonly [
    AcceptedSchema,
    {
      readonly properties: {
        readonly result: {
          readonly properties: { readonly type: { const: string }; readonly result: { anyOf: readonly object[] } };
        };
      };
    },
  ];
}

interface Link {
  readonly operationId: string;
  readonly parameters: object;
}

interface DescribedOperation {
  readonly operationId: string;
  readonly description: string;
  readonly requestBody?: object;
  readonly responses: object;
  readonly 'x-alias-of'?: string;
}

const methods = ['get', 'post', 'put', 'patch', 'delete'];
const described = Object.values(document.paths).flatMap((item) =>
  Object.entries(item).flatMap(([method, operation]) => (methods.includes(method) ? [operation] : [])),
);

/** Calls `visit` with each object in the document. */
function eachObject(value: unknown, visit: (object: Readonly<Record<string, unknown>>) => void): void {
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) visit(value as Readonly<Record<string, unknown>>);
  for (const inner of Object.values(value)) eachObject(inner, visit);
}

interface ComposedSchema {
  readonly allOf?: readonly ComposedSchema[];
  readonly oneOf?: unknown;
  readonly $ref?: string;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly examples?: unknown;
}

/** The schema without `allOf` and `oneOf`, for which client generators produce wrong types. */
function withoutComposition(
  { oneOf: _, ...schema }: ComposedSchema,
  schemas: Readonly<Record<string, ComposedSchema>>,
): ComposedSchema {
  const { allOf } = schema;
  if (!allOf) return schema;
  const parts = allOf.map(({ $ref, ...part }) =>
    $ref ? (schemas[$ref.split('/').at(-1) as string] as ComposedSchema) : part,
  );
  const { examples: _examples, ...base } = parts[0] as ComposedSchema;
  const required = parts.flatMap((part) => part.required ?? []);
  return {
    ...base,
    ...(required.length > 0 ? { required } : {}),
    properties: Object.assign({}, ...parts.map(({ properties }) => properties)),
  };
}

const nameReference = { $ref: '#/components/schemas/ObjectName' };

const fieldReference = /^#\/components\/schemas\/(\w+)\/properties\/(\w+)$/;

/** Schemas with the schema of object names, and with those of fields, in place of references to them. */
function withoutReferences(schemas: Record<string, ComposedSchema>, objectName: unknown): typeof schemas {
  const whole = (_key: string, value: unknown): unknown => {
    if (typeof value !== 'object' || value === null || !('$ref' in value)) return value;
    const { $ref: reference, ...more } = value;
    if (reference === nameReference.$ref) return { ...Object(objectName), ...more };
    const [, component = '', field = ''] = fieldReference.exec(String(reference)) ?? [];
    return field === '' ? value : whole(field, schemas[component]?.properties?.[field]);
  };
  return JSON.parse(JSON.stringify(schemas, whole));
}

test('the document for clients has the same operations without aliases, with JSON alone as media type', async () => {
  const committed = await readFile(new URL('../../openapi.client.json', import.meta.url), 'utf8');
  const { paths, components } = JSON.parse(committed) as typeof document;
  const expected = Object.entries(document.paths).flatMap(([path, item]) =>
    methods.filter((method) => item[method] && !item[method]['x-alias-of']).map((method) => `${method} ${path}`),
  );
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    methods.filter((method) => item[method]).map((method) => `${method} ${path}`),
  );
  assert.deepEqual(operations, expected);
  const schemas = document.components.schemas as Record<string, ComposedSchema>;
  const { Creation: _, ObjectName, ...composed } = schemas;
  const whole = Object.fromEntries(
    Object.entries(withoutReferences(composed, ObjectName)).map(([name, schema]) => [
      name,
      withoutComposition(schema, schemas),
    ]),
  );
  assert.deepEqual(components.schemas, whole);
  for (const [name, body] of Object.entries(components.requestBodies ?? {}))
    assert.deepEqual(Object.keys((body as { content: object }).content), ['application/json'], name);
});

test('the limits of names in the document are those that handlers check', () => {
  const { CreateCatalogRequest, RenameRequest, ObjectName } = document.components.schemas ?? {};
  const { properties: created } = CreateCatalogRequest as TObject;
  const { properties: renamed } = RenameRequest as TObject;
  for (const schema of [created.name, renamed.newName]) assert.partialDeepStrictEqual(schema, nameReference);
  const validator = Compile(ObjectName as TSchema);
  for (const name of ['', 'a', 'ä 1', 'a\u0000', '\u0085', 'x'.repeat(128), 'x'.repeat(129), '😀'.repeat(128)])
    assert.equal(validator.Check(name), nameFault(name) === undefined, JSON.stringify(name));
});

test('a 202 is the envelope with the record of a task, of the declared type and with the result of that type', () => {
  const types = new Set<string>();
  for (const { endpoint, path, method } of operations) {
    if (endpoint.task === undefined) continue;
    types.add(endpoint.task);
    const responses = (document.paths[path]?.[method]?.responses ?? {}) as Record<string, { $ref?: string }>;
    const { $ref = '' } = responses['202'] ?? {};
    const response = document.components.responses?.[$ref.split('/').at(-1) ?? ''] as AcceptedResponse;
    assert.deepEqual(Object.keys(response.links), ['showTask', 'cancelTask'], path);
    const { schema } = response.content['application/json'];
    const [envelope, declared] = schema.allOf ?? [schema, undefined];
    assert.equal(envelope?.$ref, '#/components/schemas/TaskResponse', path);
    const { type, result } = declared?.properties.result.properties ?? {};
    assert.equal(type?.const, endpoint.task === 'any' ? undefined : endpoint.task, path);
    if (!Object.hasOwn(taskResults, endpoint.task)) continue;
    const { title, anyOf = [{ title }] } = taskResults[endpoint.task as TaskType] as TitledSchema;
    const expected = anyOf.map((member) => ({ $ref: `#/components/schemas/${member.title}` }));
    assert.deepEqual(result?.anyOf, [...expected, { type: 'null' }], path);
  }
  assert.ok(types.has('any') && types.size > 10, `${[...types]}`);
});

test('links of a 202 lead to operations that have the parameter in their path', () => {
  const links = document.components.links as Record<string, Link>;
  assert.deepEqual(Object.keys(links), ['CancelTask', 'ShowTask']);
  for (const { operationId, parameters } of Object.values(links)) {
    const operation = operations.find((candidate) => candidate.operationId === operationId);
    for (const name of Object.keys(parameters)) assert.ok(operation?.path.includes(`{${name}}`), operationId);
  }
});

test('the schema of a body that must not be empty has minProperties', () => {
  const schemas = document.components.schemas as Record<string, { readonly minProperties?: number }>;
  for (const name of ['UpdateTableRequest', 'UndropRequest']) assert.equal(schemas[name]?.minProperties, 1, name);
});

test('what an operation shares with the one that creates is referenced, and everything referenced is there', () => {
  const declared = new Map(operations.map((operation) => [operation.operationId, operation]));
  const ensuring = Object.values(document.paths).flatMap((path) =>
    Object.values(path as Record<string, { readonly operationId: string; readonly 'x-codes-of'?: string }>).filter(
      (operation) => operation['x-codes-of'] !== undefined,
    ),
  );
  assert.ok(ensuring.length > 10);
  for (const { operationId, 'x-codes-of': of } of ensuring)
    assert.equal(declared.get(operationId)?.endpoint, declared.get(of ?? '')?.endpoint, operationId);
  const references = new Set(JSON.stringify(document).match(/"#\/[^"]*"/g));
  const isThere = (reference: string) =>
    reference
      .slice(3, -1)
      .split('/')
      .reduce<unknown>((value, key) => (value as Record<string, unknown> | undefined)?.[key], document) !== undefined;
  assert.deepEqual(
    [...references].filter((reference) => !isThere(reference)),
    [],
  );
  assert.ok([...references].some((reference) => reference.includes('Request/properties/')));
});

test('the document is small enough to be loaded by tools', () => {
  const text = JSON.stringify(document);
  // Comparisons of tables and views take 13,000 of them.
  assert.ok(text.length <= 577_000, `${text.length} characters`);
  assert.ok(gzipSync(text).length <= 60_000, `${gzipSync(text).length} bytes compressed`);
});

test('components have names without numbers, and requests, results and failures are components', () => {
  for (const [kind, components] of Object.entries(document.components))
    for (const name of Object.keys(components)) assert.match(name, /^[A-Za-z-]+$/, `${kind}: ${name}`);
  for (const { operationId, requestBody, responses } of described) {
    for (const value of [...Object.values(responses), ...(requestBody ? [requestBody] : [])])
      assert.deepEqual(Object.keys(value), ['$ref'], operationId);
  }
  const { requestBodies = {}, responses = {} } = document.components;
  for (const [name, body] of [...Object.entries(requestBodies), ...Object.entries(responses)]) {
    const { content } = body as { content: Record<string, { schema: AcceptedSchema }> };
    const schema = content['application/json']?.schema ?? {};
    // The task of a 202 is that of all tasks with a type and its result.
    assert.deepEqual(Object.keys(schema.allOf?.[0] ?? schema), ['$ref'], name);
    assert.equal(schema.allOf !== undefined, /^Accepted(?!Task$)/.test(name), name);
  }
});

test('an alias has the request and the responses of its operation, which is no alias', () => {
  const byId = new Map(described.map((operation) => [operation.operationId, operation]));
  const aliases = described.filter((operation) => operation['x-alias-of'] !== undefined);
  assert.ok(aliases.length > 50);
  for (const alias of aliases) {
    const operation = byId.get(alias['x-alias-of'] as string);
    assert.deepEqual(alias.requestBody, operation?.requestBody, alias.operationId);
    assert.deepEqual(alias.responses, operation?.responses, alias.operationId);
    assert.equal(operation?.['x-alias-of'], undefined);
  }
  const isAlias = (path: string) => /^\/api\/v2\/databases|\/create$/.test(path);
  for (const [path, item] of Object.entries(document.paths))
    for (const method of methods.filter((candidate) => item[candidate]))
      assert.equal(item[method]?.['x-alias-of'] !== undefined, isAlias(path), `${method} ${path}`);
});

test('operations have ids by action and a description', () => {
  for (const { operationId, description } of described) {
    assert.match(operationId, /^[a-z_]+\.[a-z_]+$/);
    assert.ok(description.length > 0, operationId);
  }
  for (const id of ['tables.rename', 'catalogs.query', 'tables.create', 'tables.update_rows', 'role_grants.list'])
    assert.ok(
      described.some(({ operationId }) => operationId === id),
      id,
    );
});

test('schemas have only unions of components, and no patterns of names, because client generators do not support others', () => {
  eachObject(document.components, (object) => {
    const { anyOf = [] } = object as { readonly anyOf?: readonly { readonly $ref?: string; readonly type?: string }[] };
    const otherTypes = anyOf.filter(({ $ref, type }) => $ref === undefined && type !== 'null');
    assert.deepEqual(otherTypes, [], JSON.stringify(object));
    for (const keyword of ['patternProperties', 'default']) assert.ok(!(keyword in object), JSON.stringify(object));
  });
});

test('openapi.json is the document of these declarations', async () => {
  const committed = JSON.parse(await readFile(new URL('../../openapi.json', import.meta.url), 'utf8')) as object;
  assert.deepEqual(committed, document, 'openapi.json is stale: run npm run generate');
});

test('every way to reach an endpoint has its own id and resolves to that endpoint', () => {
  const ids = operations.map((operation) => operation.operationId);
  assert.deepEqual(
    ids.filter((id, i) => ids.indexOf(id) !== i),
    [],
  );
  const routes = new Routes(declared);
  for (const { method, path, endpoint, category, nameInPath } of operations) {
    const route = routes.resolve(method.toUpperCase(), path.replaceAll(/\{(\w+)\}/g, '%20$1'));
    assert.equal(route.endpoint, endpoint, `${method} ${path}`);
    assert.equal(route.category, category);
    assert.equal(route.nameInPath !== undefined, nameInPath);
  }
});

test('both shapes of a path exist for everything below a category with a default parent', () => {
  const paths = new Set(operations.map((operation) => `${operation.method} ${operation.path}`));
  const fullPaths = [...paths].filter((path) => path.includes('/catalogs/{catalog}/databases'));
  assert.ok(fullPaths.length > 20);
  for (const path of fullPaths) assert.ok(paths.has(path.replace('/catalogs/{catalog}', '')), path);
});

test('names: categories in snake_case and plural, actions in snake_case, fields in camelCase with one exception', () => {
  const fields = new Set<string>();
  const walk = (schema: unknown): void => {
    if (typeof schema !== 'object' || schema === null) return;
    const { properties } = schema as { properties?: object };
    for (const name of Object.keys(properties ?? {})) fields.add(name);
    for (const inner of Object.values(schema)) walk(inner);
  };
  for (const category of categories) {
    assert.match(category.name, /^[a-z]+(_[a-z]+)*s$/, category.name);
    assert.match(category.parameter, /^[a-z][A-Za-z]*$/);
    walk(category.record);
    for (const { verb, action, body, query, result, summary } of category.endpoints) {
      if (verb === 'action') assert.match(action ?? '', /^[a-z]+(_[a-z]+)*$/);
      else assert.equal(action, undefined);
      assert.match(summary, /^[A-Z].*\.$/, `${category.name}: ${summary}`);
      for (const schema of [body, query, result]) walk(schema);
    }
  }
  fields.delete('unique_key_constraints');
  for (const field of fields) assert.match(field, /^[a-z][A-Za-z0-9]*$/, field);
});

test('parameters: at most two in a query, never a query and a body, unknown fields refused', () => {
  for (const { category, endpoint } of operations) {
    const operationName = `${category.name}.${actionOf(endpoint)}`;
    const { query, body } = parametersOf(endpoint);
    assert.ok(Object.keys(query?.properties ?? {}).length <= 2, operationName);
    assert.ok(query === undefined || body === undefined, operationName);
    for (const schema of [query, body])
      if (schema)
        assert.equal((schema as { additionalProperties?: unknown }).additionalProperties, false, operationName);
  }
});

test('every record has its creator, editor, version and URI; results without a record are marked', () => {
  const withoutRecord = ['rows', 'pages'];
  for (const { name, record, idField } of categories) {
    if (withoutRecord.includes(name)) continue;
    const fields = Object.keys(record.properties);
    for (const field of [idField ?? 'name', 'uri', 'createdAt', 'createdBy', 'updatedAt', 'updatedBy', 'version'])
      assert.ok(fields.includes(field), `${name} has no ${field}`);
  }
});

test('codes: declared ones exist, none is repeated, and each status of the closed set is in the document', () => {
  for (const { category, endpoint, path, method } of operations) {
    const operationName = `${category.name}.${actionOf(endpoint)}`;
    assert.equal(new Set(endpoint.codes).size, endpoint.codes.length, `${operationName} declares a code twice`);
    const responses = document.paths[path]?.[method]?.responses ?? {};
    const failures = new Set(codesOf(endpoint).map((code) => String(codes[code].status)));
    // METHOD_NOT_ALLOWED belongs to the path, not to an operation.
    failures.delete('405');
    const { default: general, ...others } = responses as Readonly<Record<string, object>>;
    assert.deepEqual(general, { $ref: '#/components/responses/Failure' }, operationName);
    const description = JSON.stringify(document.components.responses?.Failure);
    for (const status of failures)
      assert.ok(
        status in others || description.includes(`${status}: `),
        `${operationName}: ${status} is not described`,
      );
    const successes = Object.keys(others).filter((status) => Number(status) < 300);
    const alwaysSubmits = endpoint.verb === 'action' && endpoint.result === undefined;
    const first = endpoint.verb === 'create' || endpoint.creates ? '201' : '200';
    assert.deepEqual(
      successes,
      [...(alwaysSubmits ? [] : [first]), ...(endpoint.task === undefined ? [] : ['202'])],
      operationName,
    );
  }
});

test('every reference in the document resolves', () => {
  eachObject(document, ({ $ref }) => {
    if (typeof $ref !== 'string') return;
    let node: unknown = document;
    for (const key of $ref.slice(2).split('/')) node = (node as Record<string, unknown> | undefined)?.[key];
    assert.notEqual(node, undefined, $ref);
  });
});

function fits(schema: TSchema, value: unknown, operationName: string): void {
  const validator = Compile(schema);
  assert.ok(validator.Check(value), `${operationName}: ${JSON.stringify(validator.Errors(value))}`);
}

test('examples match their schemas', () => {
  for (const category of categories) {
    fits(category.record, category.example, category.name);
    for (const endpoint of category.endpoints) {
      const operationName = `${category.name}.${actionOf(endpoint)}`;
      const body = bodyOf(endpoint, true);
      if (endpoint.example?.body !== undefined) fits(body as TSchema, endpoint.example.body, `${operationName} body`);
      else if (body !== undefined)
        assert.ok(endpoint.bodyRequired !== true, `${operationName} needs an example of its body`);
      if (endpoint.example?.result !== undefined && endpoint.result)
        fits(endpoint.result, endpoint.example.result, `${operationName} result`);
    }
  }
});
