// The failure responses of the OpenAPI document: one for each status of the standard, named by its meaning.
import { type Code, codes, type FailureStatus, type RequestOutcome } from '../codes.ts';
import type { Endpoint } from '../endpoint.ts';
import { violationsMax } from '../failure.ts';
import type { Components, Json } from './components.ts';
import { codesOf } from './endpoint_codes.ts';

type OperationStatus = Exclude<FailureStatus, 405>;

interface Meaning {
  readonly name: string;
  readonly description: string;
  readonly schema: keyof typeof schemas;
  /** Headers besides the id of the request: component and schema. */
  readonly headers?: Readonly<Record<string, Json>>;
}

/** Results may have more fields than those documented. */
const object = (properties: Json, required: readonly string[] = []): Json => ({
  type: 'object',
  ...(required.length > 0 ? { required } : {}),
  properties,
});

const failureOf = (result: Json): Json =>
  object(
    {
      code: {
        type: 'string',
        pattern: '^[A-Z][A-Z0-9_]*$',
        description:
          'What went wrong. The operation lists its codes in `x-codes`; later releases may add codes, so treat an unknown code by its status.',
      },
      message: { type: 'string', description: 'A short, human-readable message.' },
      result,
    },
    ['code', 'message', 'result'],
  );

const violations = {
  type: 'array',
  maxItems: violationsMax,
  items: { $ref: '#/components/schemas/Violation' },
  description: 'The fields and parameters that are not valid.',
};
const outcome = {
  type: 'string',
  enum: ['notApplied', 'unknown'] satisfies RequestOutcome[],
  description:
    'Whether the request changed nothing (`notApplied`), or may have been applied or may still be (`unknown`).',
};
const errorId = { type: 'string', description: 'The id of the entry in the log of the server.' };

const schemas = {
  Violation: object(
    {
      pointer: {
        type: 'string',
        description: 'A JSON pointer into the body, or `path:`, `query:` or `header:` and a name.',
      },
      rule: { type: 'string' },
      message: { type: 'string' },
    },
    ['pointer', 'rule', 'message'],
  ),
  Failure: failureOf(object({}, [])),
  InvalidRequestFailure: failureOf(object({ violations })),
  ServerFailure: failureOf(object({ outcome, errorId }, ['outcome'])),
} as const satisfies Record<string, Json>;

const text = { type: 'string' };
const meanings: Readonly<Record<OperationStatus, Meaning>> = {
  400: {
    name: 'InvalidRequest',
    description: 'The request is not valid, or contradicts the state of the object.',
    schema: 'InvalidRequestFailure',
  },
  401: {
    name: 'Unauthenticated',
    description: 'The credentials are missing or not accepted.',
    schema: 'Failure',
    headers: { 'WWW-Authenticate': { description: 'The accepted schemes.', schema: text } },
  },
  403: { name: 'Forbidden', description: 'The caller does not have the privilege.', schema: 'Failure' },
  404: { name: 'NotFound', description: 'The object or the API does not exist.', schema: 'Failure' },
  406: { name: 'NotAcceptable', description: '`Accept` does not admit `application/json`.', schema: 'Failure' },
  415: {
    name: 'UnsupportedMediaType',
    description: 'The body is not of the declared media type.',
    schema: 'Failure',
  },
  500: { name: 'InternalError', description: 'An unexpected error occurred.', schema: 'ServerFailure' },
  503: {
    name: 'Unavailable',
    description: 'The request cannot be served now; retry later.',
    schema: 'ServerFailure',
    headers: {
      'Retry-After': {
        description: 'The number of seconds after which to retry.',
        schema: { type: 'integer', minimum: 0 },
      },
    },
  },
};

/** The failure responses of an endpoint, by status. A method that is not allowed (405) is a failure of the path, and of no operation. */
export function failuresOf(endpoint: Endpoint, components: Components, forClients: boolean): Record<string, Json> {
  const statuses = [...new Set(codesOf(endpoint).map((code) => codes[code].status))].filter((status) => status !== 405);
  const own = forClients ? statuses : statuses.filter((status) => !generalStatuses.includes(status));
  const failures = Object.fromEntries(own.sort().map((status) => [status, failure(status, components)]));
  return forClients ? failures : { ...failures, default: generalFailure(components) };
}

/** Statuses with the same meaning for all operations: each would repeat them. Generators of clients handle listed statuses better. */
const generalStatuses: readonly FailureStatus[] = [401, 403, 406, 415, 500];

function generalFailure(components: Components): Json {
  const all = generalStatuses.map((status) => `${status}: ${meanings[status as OperationStatus].description}`);
  return components.add('responses', 'Failure', {
    description: `A failure that every operation can have. ${all.join(' ')}`,
    headers: { 'x-service-request-id': { $ref: '#/components/headers/RequestId' } },
    content: { 'application/json': { schema: components.add('schemas', 'Failure', schemas.Failure) } },
  });
}

function failure(status: OperationStatus, components: Components): Json {
  const { name, description, schema, headers } = meanings[status];
  if (schema === 'InvalidRequestFailure') components.add('schemas', 'Violation', schemas.Violation);
  const [code, { meaning, outcome: defaultOutcome }] = exampleOf(status);
  return components.add('responses', name, {
    description,
    headers: { 'x-service-request-id': { $ref: '#/components/headers/RequestId' }, ...headers },
    content: {
      'application/json': {
        schema: components.add('schemas', schema, schemas[schema]),
        example: { code, message: meaning, result: defaultOutcome ? { outcome: defaultOutcome } : {} },
      },
    },
  });
}

function exampleOf(status: FailureStatus): [Code, (typeof codes)[Code]] {
  const found = (Object.entries(codes) as [Code, (typeof codes)[Code]][]).find(([, code]) => code.status === status);
  if (!found) throw new Error(`no code has the status ${status}`);
  return found;
}
