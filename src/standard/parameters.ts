// Validates declared parameters: compiled once for each endpoint. The only source of validation errors for bodies and queries
// (rest-standard A5, B2).
import { escapePointer } from '../model/values/json_pointer.ts';
import { camelCase } from './camel_case.ts';
import { documentedLimits } from './documented_limits.ts';
import { acceptsExpectedVersion, type Category, type Endpoint, nameFieldOf } from './endpoint.ts';
import { Failure, type Violation, violationsFailure } from './failure.ts';
import { objectName } from './object_name.ts';
import { pageSizeDefault, pageSizeMax, pageTokenCharactersMax } from './page_limits.ts';
import { narrowUnion, type Schema, schemaAt } from './schema/union_narrowing.ts';
import { type TObject, type TSchema, Type } from './type.ts';
import { validation } from './validation.ts';

/** The two query parameters of every list (rest-standard B3). */
const pageQuery = Type.Object(
  {
    pageSize: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: pageSizeMax,
        default: pageSizeDefault,
        description: 'The maximum number of items in a page.',
      }),
    ),
    pageToken: Type.Optional(
      Type.String({ maxLength: pageTokenCharactersMax, description: '`nextPageToken` of the previous page.' }),
    ),
  },
  { additionalProperties: false },
);

export type Check = (value: unknown) => void;

const ExpectedVersion = Type.Integer({
  title: 'ExpectedVersion',
  minimum: 1,
  description: 'The request is applied only if the object has this version.',
});

/** The schema of a body: for a create with the name unless the path has it, for a change with `expectedVersion`. */
export function bodyOf(endpoint: Endpoint, withName: boolean): TObject | undefined {
  if (endpoint.body && acceptsExpectedVersion(endpoint)) {
    const { properties, required: _required, type: _type, ...options } = endpoint.body;
    return Type.Object({ ...properties, expectedVersion: Type.Optional(ExpectedVersion) }, options) as TObject;
  }
  if (endpoint.verb !== 'create' || endpoint.named === false || endpoint.body === undefined) return endpoint.body;
  const name = objectName();
  const optional = !withName || endpoint.nameOptional === true;
  const fields = { [nameFieldOf(endpoint)]: optional ? Type.Optional(name) : name, ...endpoint.body.properties };
  const { [documentedLimits]: limits } = endpoint.body as { readonly [documentedLimits]?: object };
  const options = { additionalProperties: false, ...(limits ? { [documentedLimits]: limits } : {}) };
  return Type.Object(fields, options) as unknown as TObject;
}

/** A check that throws UNKNOWN_FIELD or INVALID_PARAMETER with violations. */
export function compileCheck(schema: TSchema, where: 'body' | 'query'): Check {
  const { Compile, Errors } = validation();
  const validator = Compile(schema);
  return (value) => {
    if (validator.Check(value)) return;
    const narrowed = narrowUnion(schema, value);
    const [, errors] = Errors(narrowed.schema, narrowed.value);
    // Narrowing is heuristic: the declared schema is authoritative.
    throw failureOf(violationsOf(errors.length > 0 ? errors : validator.Errors(value)[1], narrowed.schema, where));
  };
}

interface SchemaError {
  readonly keyword: string;
  readonly instancePath: string;
  readonly schemaPath: string;
  readonly params: object;
  readonly message: string;
}

function violationsOf(errors: readonly SchemaError[], schema: TSchema, where: 'body' | 'query'): Violation[] {
  const found: Violation[] = [];
  for (const error of errors) {
    const { keyword, instancePath, params } = error;
    // additionalProperties reports the same error more precisely.
    if (keyword === 'boolean') continue;
    const location = where === 'body' ? instancePath : `query:${instancePath.slice(1)}`;
    const declared = schemaAt(schema, error.schemaPath);
    if (keyword === 'additionalProperties') {
      for (const field of (params as { additionalProperties: string[] }).additionalProperties) {
        const pointer = where === 'body' ? `${instancePath}/${escapePointer(field)}` : `query:${field}`;
        found.push({ pointer, rule: 'unknownField', message: 'is not a field of this API' });
      }
    } else if (keyword === 'required') {
      for (const field of (params as { requiredProperties: string[] }).requiredProperties) {
        const values = declared?.properties?.[field]?.enum;
        const message = values ? `is required: ${oneOf(values)}` : 'is required';
        found.push({ pointer: `${location}/${escapePointer(field)}`, rule: 'required', message });
      }
    } else found.push({ pointer: location, rule: keyword, message: messageOf(error, declared) });
  }
  return found;
}

const oneOf = (values: readonly unknown[]): string => {
  const texts = values.map((value) => (/^[\w-]+$/.test(String(value)) ? String(value) : JSON.stringify(value)));
  return texts.length === 1 ? (texts[0] as string) : `one of ${texts.join(', ')}`;
};

/** The validator's message, unless the allowed values can be listed. */
function messageOf({ keyword, params, message }: SchemaError, declared: Schema | undefined): string {
  const { allowedValues, allowedValue } = params as { allowedValues?: unknown[]; allowedValue?: unknown };
  if (keyword === 'enum' && allowedValues) return `must be ${oneOf(allowedValues)}`;
  if (keyword === 'const') return `must be ${oneOf([allowedValue])}`;
  const { properties, minProperties, maxProperties } = declared ?? {};
  if (properties && Object.keys(properties).length > 0 && minProperties === 1 && /^m(?:in|ax)Properties$/.test(keyword))
    return `must have ${maxProperties === 1 ? 'exactly' : 'at least'} ${oneOf(Object.keys(properties))}`;
  return message;
}

function failureOf(violations: readonly Violation[]): Failure {
  const first = violations[0];
  const unknown = violations.every((violation) => violation.rule === 'unknownField');
  const message = first
    ? `${first.pointer || 'the body'} ${first.message}`
    : 'the request does not match the schema of this API';
  return violationsFailure(unknown && first ? 'UNKNOWN_FIELD' : 'INVALID_PARAMETER', message, violations);
}

/** The compiled parameters of an endpoint. */
export interface Parameters {
  readonly query: TObject | undefined;
  readonly checkQuery: Check | undefined;
  readonly body: TObject | undefined;
  readonly checkBody: Check | undefined;
  /** For `PUT /{collection}/{object}`. */
  readonly checkBodyWithoutName: Check | undefined;
  readonly mediaTypes: readonly string[];
}

/** The query parameters that an endpoint declares; compiles nothing. */
export function queryOf<Context>(endpoint: Endpoint<Context>): TObject | undefined {
  return endpoint.query ?? (endpoint.verb === 'list' ? pageQuery : undefined);
}

const compiled = new WeakMap<object, Parameters>();

/** Compiled at first use: a validator takes 0.2 ms, and a startup does not wait for a hundred of them. */
export function parametersOf<Context>(endpoint: Endpoint<Context>): Parameters {
  let parameters = compiled.get(endpoint);
  if (!parameters) {
    parameters = compile(endpoint);
    compiled.set(endpoint, parameters);
  }
  return parameters;
}

function compile<Context>(endpoint: Endpoint<Context>): Parameters {
  const query = queryOf(endpoint);
  const { body } = endpoint;
  return {
    query,
    checkQuery: query && compileCheck(query, 'query'),
    body,
    checkBody: body && compileCheck(bodyOf(endpoint, true) as TSchema, 'body'),
    checkBodyWithoutName: body && compileCheck(bodyOf(endpoint, false) as TSchema, 'body'),
    mediaTypes: ['application/json', ...Object.keys(endpoint.textBodies ?? {})],
  };
}

/**
 * The query string → declared, typed, unrepeated parameters. Throws UNKNOWN_QUERY_PARAMETER, REPEATED_QUERY_PARAMETER,
 * BODY_AND_QUERY (when the API accepts a body) or INVALID_PARAMETER.
 */
export function readQuery(text: string, parameters: Parameters): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  if (text === '') return values;
  const declared = parameters.query?.properties ?? {};
  for (const [name, value] of new URLSearchParams(text)) {
    if (!Object.hasOwn(declared, name)) {
      if (parameters.body)
        throw new Failure('BODY_AND_QUERY', 'this API accepts parameters in the body, not in the query string');
      const names = Object.keys(declared);
      const accepted = names.length > 0 ? `it accepts ${names.join(' and ')}` : 'it accepts none';
      throw new Failure(
        'UNKNOWN_QUERY_PARAMETER',
        `"${name.slice(0, 64)}" is not a query parameter of this API; ${accepted}`,
        {
          declared: names,
        },
      );
    }
    if (Object.hasOwn(values, name))
      throw new Failure('REPEATED_QUERY_PARAMETER', `query parameter "${name}" is repeated`);
    values[name] = typed(value, declared[name] as TSchema);
  }
  parameters.checkQuery?.(values);
  return values;
}

function typed(value: string, schema: TSchema): unknown {
  const type = (schema as { type?: string }).type;
  if (type === 'integer' && /^-?\d{1,15}$/.test(value)) return Number(value);
  if (type === 'boolean' && (value === 'true' || value === 'false')) return value === 'true';
  return value;
}

/** The field of a list that holds its items. */
export function listKeyOf(category: Pick<Category, 'name'>): string {
  return camelCase(category.name);
}
