// Rules about methods, their bodies and their statuses (rest-standard A2, A4, A5).
import { allowedStatuses, clauses } from '../clauses.ts';
import { child } from '../document/nodes.ts';
import type { OpenApiDocument, Operation } from '../document/openapi.ts';
import { isPlural } from '../document/plural.ts';
import { shapesOf } from '../document/shapes.ts';
import { jsonBody, ok } from './examples.ts';
import { partsOf } from './path_rules.ts';
import type { Finding, Rule } from './rule.ts';

/** `GET /api/v1/tables`. */
export const nameOf = ({ method, pathItem }: Operation): string => `${method.toUpperCase()} ${pathItem.fullPath}`;

export const operationsOf = ({ pathItems }: OpenApiDocument): readonly Operation[] =>
  pathItems.flatMap(({ operations }) => operations);

/** Whether an operation certainly creates an object: an action that is not `create` does something else. */
export function isCreation({ method, pathItem }: Operation): boolean {
  if (method !== 'post' && method !== 'put') return false;
  const last = partsOf(pathItem).segments.at(-1);
  if (last === undefined) return false;
  return last.text === 'create' || last.kind === 'object' || (last.kind === 'category' && isPlural(last.text));
}

const methodBody: Rule = {
  id: 'method-body',
  title: 'GET and DELETE have no request body.',
  clauses: [clauses.get, clauses.delete],
  doc: 'A search with more parameters than a query may have is an action with POST.',
  good: ok({ path: '/api/v1/tables/search', method: 'post', body: jsonBody('{ type: object }') }),
  bad: ok({ method: 'get', body: jsonBody('{ type: object }') }),
  check: (document) =>
    operationsOf(document)
      .filter(({ method, body }) => body !== undefined && (method === 'get' || method === 'delete'))
      .map((operation) => ({
        message: `${nameOf(operation)} has a request body: move its fields to the path, to at most 2 query parameters, or to an action with POST`,
        at: child(document.root, ...operation.at, 'requestBody')?.at ?? operation.at,
      })),
};

function expectedStatuses(operation: Operation): readonly string[] {
  if (operation.method === 'put' || operation.method === 'post')
    return isCreation(operation) ? ['201', '202'] : ['200', '201', '202'];
  return ['200', '202'];
}

const methodStatus: Rule = {
  id: 'method-status',
  title: 'GET, PATCH and DELETE succeed with 200, a creation with 201, and what submits a task with 202.',
  clauses: [clauses.get, clauses.post, clauses.put, clauses.patch, clauses.delete, clauses.task],
  doc: 'POST and PUT create objects when the path ends in a collection, an object or `create`; another action may return 200, 201 or 202. At least one success is declared. Only the statuses of the closed set are covered here; see status-closed for others.',
  good: ok({
    path: '/api/v1/tables',
    method: 'post',
    status: '201',
    result: '{ type: object, properties: { uri: { type: string } } }',
  }),
  bad: ok({ path: '/api/v1/tables', method: 'post', status: '200' }),
  check: (document) =>
    operationsOf(document).flatMap((operation): Finding[] => {
      const expected = expectedStatuses(operation);
      const successes = operation.responses.filter(({ status }) => /^2/.test(status));
      const mayBe =
        expected.length === 1 ? expected.join('') : `${expected.slice(0, -1).join(', ')} or ${expected.at(-1)}`;
      if (successes.length === 0 && !operation.responses.some(({ status }) => status === 'default'))
        return [{ message: `${nameOf(operation)} declares no success: it succeeds with ${mayBe}`, at: operation.at }];
      return successes
        .filter(({ status }) => allowedStatuses.has(Number(status)) && !expected.includes(status))
        .map(({ status, at }) => ({
          message: `${nameOf(operation)} succeeds with ${status}: it must be ${mayBe}`,
          at,
        }));
    }),
};

const statusClosed: Rule = {
  id: 'status-closed',
  title: 'Responses have only the statuses 200, 201, 202, 400, 401, 403, 404, 405, 406, 415, 500 and 503.',
  clauses: [clauses.closedSet],
  doc: 'A range such as `4XX` declares others too. `default` is allowed: it says nothing about the status.',
  good: ok({}),
  bad: ok({ more: '        "409": { description: The object exists. }' }),
  check: (document) =>
    operationsOf(document).flatMap((operation) =>
      operation.responses
        .filter(
          ({ status }) => status !== 'default' && !(/^\d{3}$/.test(status) && allowedStatuses.has(Number(status))),
        )
        .map(({ status, at }) => ({
          message: `${nameOf(operation)} answers ${status}, which is outside the closed set: ${insteadOf(status)}`,
          at,
        })),
    ),
};

function insteadOf(status: string): string {
  if (/^2/.test(status)) return 'use 200, 201 or 202, with a body';
  if (/^3/.test(status)) return 'answer with the URI in a body';
  if (/^(409|410|412|413|422|428|431|4XX)$/i.test(status)) return 'use 400 with a code of its own';
  if (status === '429') return 'use 503, with which rate limits are reported';
  return /^4/.test(status) ? 'use 400, 401, 403, 404, 405, 406 or 415' : 'use 500 or 503';
}

const json = 'application/json';
/** Without parameters such as the character set. */
const bareType = (mediaType: string): string => (mediaType.split(';')[0] ?? '').trim().toLowerCase();
const typesOf = ({ body }: Operation): readonly string[] => [
  ...new Set(body?.contents.map(({ mediaType }) => bareType(mediaType)) ?? []),
];

const bodyJson: Rule = {
  id: 'body-json',
  title: 'A request body is application/json.',
  clauses: [clauses.jsonBodies],
  doc: 'Accepted: `application/json`, with parameters or without. An operation that cannot be sent JSON is a finding. Further media types beside JSON, and `*/*`, are a note of `openapi lint`: the standard names no other, so that a client that keeps to it sends JSON, and does not say that a service must refuse the same content in another representation.',
  good: ok({ path: '/api/v1/tables/search', method: 'post', body: jsonBody('{ type: object }') }),
  bad: ok({
    path: '/api/v1/tables/search',
    method: 'post',
    body: '{ content: { application/x-www-form-urlencoded: { schema: { type: object } } } }',
  }),
  check: (document) =>
    operationsOf(document).flatMap((operation): Finding[] => {
      const types = typesOf(operation);
      if (!operation.body || types.some((type) => type === json || type === '*/*')) return [];
      const only = types.length > 0 ? `is only ${types.join(', ')}` : 'has no media type';
      const message = `the request body of ${nameOf(operation)} ${only}: take ${json}`;
      return [{ message, at: operation.body.at }];
    }),
  notes: (document) => {
    const takers = new Map<string, string[]>();
    for (const operation of operationsOf(document)) {
      const types = typesOf(operation);
      if (!types.includes(json) && !types.includes('*/*')) continue;
      for (const type of types.filter((each) => each !== json))
        takers.set(type, [...(takers.get(type) ?? []), nameOf(operation)]);
    }
    return [...takers].map(
      ([type, [first, ...others]]) =>
        `${type} is accepted beside ${json} by ${first}${others.length > 0 ? ` and ${others.length} more` : ''}; the standard names only ${json}`,
    );
  },
};

const patchPartial: Rule = {
  id: 'patch-partial',
  title: 'PATCH requires no field: its body has only the fields to change.',
  clauses: [clauses.patch],
  doc: 'Covers the top level of the body of PATCH, if it is an object.',
  good: ok({
    path: '/api/v1/tables/{table}',
    method: 'patch',
    parameters: ['table'],
    body: jsonBody('{ type: object, properties: { comment: { type: string }, owner: { type: string } } }'),
  }),
  bad: ok({
    path: '/api/v1/tables/{table}',
    method: 'patch',
    parameters: ['table'],
    body: jsonBody(
      '{ type: object, required: [comment, owner], properties: { comment: { type: string }, owner: { type: string } } }',
    ),
  }),
  check: (document) =>
    operationsOf(document).flatMap((operation): Finding[] => {
      if (operation.method !== 'patch') return [];
      return (operation.body?.contents ?? []).flatMap(({ mediaType, schema, at }) => {
        if (mediaType !== 'application/json' || !schema) return [];
        const shapes = shapesOf(document.root, schema);
        // A field that is required in one alternative only is a choice of the caller.
        const required = [...(shapes[0]?.required ?? [])].filter((name) =>
          shapes.every((shape) => shape.required.has(name)),
        );
        if (required.length === 0) return [];
        const message = `${nameOf(operation)} requires ${required.join(', ')}: a change has only the fields to change`;
        return [{ message, at: schema.at.length > 0 ? schema.at : at }];
      });
    }),
};

export const methodRules: readonly Rule[] = [methodBody, methodStatus, statusClosed, bodyJson, patchPartial];
