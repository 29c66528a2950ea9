// How the tests over every endpoint call one: fills in its template, and checks each response against the declaration (codes,
// statuses, result schema). The endpoints are read from the declarations; no category is named here.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type TObject, type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { categoriesWith } from '../../src/resources/index.ts';
import { actionOf, type Category, nameFieldOf } from '../../src/standard/endpoint.ts';
import { codesOf } from '../../src/standard/openapi/endpoint_codes.ts';
import { type Operation, operationsOf } from '../../src/standard/openapi/operations.ts';
import { listKeyOf } from '../../src/standard/parameters.ts';
import type { Reply, RequestOptions, TestServer } from '../server.ts';

/** Small, so that a body over the limit is cheap to send. */
export const limits = { requestBodyBytesMax: 16_384, rowsBodyBytesMax: 32_768 };
/** Thousands of attempts come from one address here; throttling is tested elsewhere. */
export const noLoginThrottling = {
  failedLoginsPerAddressMax: 1_000_000,
  failedLoginsPerUserAndAddressMax: 1_000_000,
  failedLoginsPerUserMax: 1_000_000,
};
export const categories = categoriesWith(limits) as readonly Category[];
export const operations: readonly Operation[] = operationsOf(categories, 'v2');

export type Params = Readonly<Record<string, string>>;

/** Of its fixture, among those of its category. */
export const keyOf = ({ endpoint }: Operation) => actionOf(endpoint);
export const nameOf = ({ category, endpoint }: Operation) => `${category.name}.${actionOf(endpoint)}`;
export const titleOf = (operation: Operation) => `${operation.method.toUpperCase()} ${operation.path}`;
export const takesBody = ({ endpoint }: Operation) => endpoint.body !== undefined;

/** The path parameters of a template, from the left. */
export const parametersIn = (path: string) => [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);

/** A template filled with names; missing ones are replaced by the name of nothing. */
export function pathOf(template: string, params: Params = {}): string {
  return template.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? 'nothing'));
}

/** The example body of the documentation: it passes every check that needs no access to the catalog. */
export function exampleBody({ endpoint, nameInPath }: Operation): Record<string, unknown> {
  const field = nameFieldOf(endpoint);
  const { [field]: name, ...rest } = (endpoint.example?.body ?? {}) as Record<string, unknown>;
  return nameInPath || name === undefined ? rest : { [field]: name, ...rest };
}

/** Calls an operation and checks the response against the standard and the declaration. */
export async function call(
  server: TestServer,
  operation: Operation,
  path: string,
  options: RequestOptions = {},
): Promise<Reply> {
  const id = randomUUID();
  const headers = { 'x-service-request-id': id, ...options.headers };
  const reply = await server.request(operation.method.toUpperCase(), path, { ...options, headers });
  const summary = `${reply.request}: ${reply.status} ${reply.code} ${reply.message}`;
  if (headers['x-service-request-id'] === id) assert.equal(reply.headers['x-service-request-id'], id, summary);
  const declared = codesOf(operation.endpoint);
  assert.ok(
    reply.code === '0' || declared.includes(reply.code as (typeof declared)[number]),
    `${summary} is not declared`,
  );
  if (reply.status < 300) requireDeclaredResult(operation, reply);
  return reply;
}

const taskRecord = categories.find((category) => category.name === 'tasks')?.record as TObject;
/** Validators by endpoint; for a 202 the one of the record of a task. */
const compiled = new Map<object, ReturnType<typeof Compile>>();

/** Undeclared fields are an error, unless the declaration allows others. */
function closedSchema(schema: TSchema): TSchema {
  const { properties, additionalProperties } = schema as {
    properties?: TObject['properties'];
    additionalProperties?: unknown;
  };
  if (properties === undefined || additionalProperties !== undefined) return schema;
  return { ...schema, additionalProperties: false } as TSchema;
}

function successSchema({ endpoint, category }: Operation, status: number): TSchema {
  if (status === 202) return closedSchema(taskRecord);
  const record = closedSchema(category.record);
  switch (endpoint.verb) {
    case 'list':
      return Type.Object(
        { [listKeyOf(category)]: Type.Array(record), nextPageToken: Type.Optional(Type.String()) },
        { additionalProperties: false },
      );
    case 'create':
      return closedSchema(endpoint.result ?? withCreated(category.record));
    case 'delete':
      return Type.Object({ deleted: Type.Boolean() }, { additionalProperties: false });
    case 'get':
    case 'update':
      return closedSchema(endpoint.result ?? category.record);
    case 'action':
      assert.ok(endpoint.result, `${category.name}.${endpoint.action} always answers with a task`);
      return endpoint.creates ? closedSchema(withCreated(endpoint.result as TObject)) : closedSchema(endpoint.result);
  }
}

const withCreated = (record: TObject): TSchema => Type.Object({ ...record.properties, created: Type.Boolean() });

function requireDeclaredResult(operation: Operation, reply: Reply): void {
  const { endpoint } = operation;
  const first = endpoint.verb === 'create' || endpoint.creates ? 201 : 200;
  assert.ok(
    reply.status === first || (reply.status === 202 && endpoint.task !== undefined),
    `${reply.request}: ${reply.status}`,
  );
  if (reply.status === 202 && endpoint.task !== 'any') assert.equal(reply.at('type'), endpoint.task, reply.request);
  if (reply.status > 200) assert.equal(reply.headers.location, reply.at('uri'), `${reply.request}: Location`);
  const key = reply.status === 202 ? taskRecord : endpoint;
  const validator = compiled.get(key) ?? Compile(successSchema(operation, reply.status));
  compiled.set(key, validator);
  const errors = validator.Check(reply.result) ? [] : validator.Errors(reply.result).slice(0, 3);
  assert.deepEqual(errors, [], `${reply.request}: the result is not as declared: ${reply.text.slice(0, 600)}`);
}
