// The parameters and headers of the OpenAPI document.
import { acceptsIdempotencyKey, type Category, isConditional } from '../endpoint.ts';
import { objectNameLimits } from '../object_name.ts';
import { queryOf } from '../parameters.ts';
import type { Components, Json } from './components.ts';
import { pascal } from './names.ts';
import type { Operation } from './operations.ts';
import type { Schemas } from './schemas.ts';

const visibleAscii = '^[!-~]+$';

const requestId = { type: 'string', minLength: 1, maxLength: 128, pattern: visibleAscii };
const entityTag = { type: 'string', maxLength: 256, pattern: '^"[!-~]*"$' };

const headerParameters = {
  RequestId: {
    name: 'x-service-request-id',
    in: 'header',
    description: 'Returned in the response and written to the log; generated if absent.',
    schema: requestId,
  },
  IdempotencyKey: {
    name: 'x-service-idempotency-key',
    in: 'header',
    description:
      'Repeating a request with the same key within 24 hours returns the first response without applying the request again.',
    schema: { type: 'string', minLength: 1, maxLength: 255, pattern: visibleAscii },
  },
  IfMatch: {
    name: 'If-Match',
    in: 'header',
    description: 'The `ETag` of the record: the request is applied only if the record still has it.',
    schema: { type: 'string', minLength: 1, maxLength: 8192 },
  },
} as const satisfies Record<string, Json>;

/** Response headers; those of failures are declared with them. */
export const headers: Readonly<Record<'RequestId' | 'ETag' | 'Location', Json>> = {
  RequestId: { description: 'The id of the request, as it is in the log.', schema: requestId },
  ETag: { description: 'The version of the record, for `If-Match`.', schema: entityTag },
  Location: {
    description: 'The URI of the object or of the task.',
    schema: { type: 'string', format: 'uri-reference', maxLength: 8192 },
  },
};

/** The parameters of all operations of a path. `byParameter`: the category of each of its parameters. */
export function sharedParametersOf(
  path: string,
  byParameter: ReadonlyMap<string, Category>,
  components: Components,
): Json[] {
  const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => {
    const { singular = 'object', idField } = byParameter.get(name) ?? {};
    return components.add('parameters', pascal(name), {
      name,
      in: 'path',
      required: true,
      description: `The ${idField === undefined ? 'name' : 'id'} of the ${singular.replaceAll('_', ' ')}.`,
      schema: { type: 'string', ...objectNameLimits },
    });
  });
  return [...named, header('RequestId', components)];
}

const header = (name: keyof typeof headerParameters, components: Components) =>
  components.add('parameters', name, headerParameters[name]);

/** The other parameters of an operation. */
export function parametersOf({ endpoint }: Operation, components: Components, schemas: Schemas): Json[] {
  const query = Object.entries(queryOf(endpoint)?.properties ?? {}).map(([name, schema]) => {
    const { description, ...rest } = schemas.describe(schema);
    return components.add('parameters', pascal(`_${name}`), {
      name,
      in: 'query',
      ...(description === undefined ? {} : { description }),
      schema: rest,
    });
  });
  return [
    ...query,
    ...(acceptsIdempotencyKey(endpoint) ? [header('IdempotencyKey', components)] : []),
    ...(isConditional(endpoint) ? [header('IfMatch', components)] : []),
  ];
}
