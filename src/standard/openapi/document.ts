// Generates the OpenAPI 3.1 document from the declarations. What several operations share is a component with a name that says what it
// is; the document contains only what the declarations contain.
import type { ApiVersion, Category, Endpoint } from '../endpoint.ts';
import { actionOf, nameFieldOf } from '../endpoint.ts';
import { bodyOf } from '../parameters.ts';
import type { TObject } from '../type.ts';
import { Components, type Json, type OpenApiOptions } from './components.ts';
import { ownCodesOf, sharedCodes } from './endpoint_codes.ts';
import { failuresOf } from './failures.ts';
import { pascal } from './names.ts';
import { nounOf, type Operation, operationsOf } from './operations.ts';
import { headers, parametersOf, sharedParametersOf } from './parameters.ts';
import { Schemas } from './schemas.ts';
import { type Names, Successes, type TaskDescription } from './successes.ts';

export interface OpenApiInfo {
  readonly title: string;
  readonly description: string;
  readonly release: string;
  readonly version: ApiVersion;
  readonly tasks?: TaskDescription;
}

export function openApi(
  categories: readonly Category[],
  info: OpenApiInfo,
  options: OpenApiOptions = { forClients: false },
): Json {
  const components = new Components();
  const describe = new Descriptions(categories, components, info, options);
  const byParameter = new Map(categories.map((category) => [category.parameter, category]));
  const paths: Record<string, Record<string, unknown>> = {};
  for (const operation of operationsOf(categories, info.version)) {
    if (operation.aliasOf !== undefined && options.forClients) continue;
    const { path, method } = operation;
    const item = paths[path] ?? { parameters: sharedParametersOf(path, byParameter, components) };
    item[method] = describe.operation(operation);
    paths[path] = item;
  }
  for (const [name, header] of Object.entries(headers)) components.add('headers', name, header);
  return {
    openapi: '3.1.0',
    info: {
      title: info.title,
      description: info.description,
      version: info.release,
      contact: { name: 'The maintainers of Tabularium' },
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'The server that serves this document.' }],
    // Some generated clients send one credential for each scheme, of which the last one is used.
    security: [{ basic: [] }, { bearer: [] }],
    tags: categories.map(({ title, doc }) => ({ name: title, description: doc })),
    'x-codes': sharedCodes,
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' }, basic: { type: 'http', scheme: 'basic' } },
      ...components.toJson(),
    },
  };
}

/** The name of the body of actions without fields of their own; undefined for others. */
function emptyBodyName({ properties }: TObject): string | undefined {
  const [field, ...others] = Object.keys(properties);
  if (field === undefined) return 'Empty';
  return field === 'expectedVersion' && others.length === 0 ? 'ExpectedVersion' : undefined;
}

/** A body that is required has a field at least; the server checks it before the schema. */
const nonEmpty = (endpoint: Endpoint, { required = [] }: { readonly required?: readonly string[] }): Json =>
  endpoint.bodyRequired && required.length === 0 ? { minProperties: 1 } : {};

class Descriptions {
  readonly #categories: readonly Category[];
  readonly #components: Components;
  readonly #forClients: boolean;
  readonly #schemas: Schemas;
  readonly #successes: Successes;
  /** Responses by endpoint, which has several operations. */
  readonly #responses = new Map<Endpoint, Json>();

  constructor(categories: readonly Category[], components: Components, info: OpenApiInfo, options: OpenApiOptions) {
    this.#forClients = options.forClients;
    this.#categories = categories;
    this.#components = components;
    this.#schemas = new Schemas(components, options);
    this.#successes = new Successes(components, this.#schemas, options, info.tasks);
  }

  operation(operation: Operation): Json {
    const { endpoint, category, operationId, aliasOf } = operation;
    const names = this.#namesOf(operation);
    const parameters = parametersOf(operation, this.#components, this.#schemas);
    const requestBody = this.#requestBody(operation, names);
    return {
      operationId,
      tags: [category.title],
      summary: aliasOf === undefined ? endpoint.summary : `Alias of \`${aliasOf}\`.`,
      description: this.#descriptionOf(operation),
      ...(endpoint.deprecated ? { deprecated: true } : {}),
      ...this.#extensionsOf(operation),
      ...(parameters.length > 0 ? { parameters } : {}),
      ...(requestBody ? { requestBody } : {}),
      responses: this.#responsesOf(endpoint, category, names),
    };
  }

  /** An operation that ensures what another one creates has the privilege and the codes of that one. */
  #extensionsOf({ endpoint, aliasOf, ensures }: Operation): Json {
    if (aliasOf !== undefined) return { 'x-alias-of': aliasOf };
    if (ensures !== undefined) return { 'x-codes-of': ensures };
    return { 'x-privilege': endpoint.permission.privilege, 'x-codes': ownCodesOf(endpoint) };
  }

  #namesOf({ category, endpoint }: Operation): Names {
    const object = pascal(nounOf(category, this.#categories));
    const many = object.slice(0, object.length - pascal(category.singular).length) + pascal(category.name);
    const noun = endpoint.on === 'object' || (endpoint.verb === 'create' && endpoint.named !== false) ? object : many;
    const operation = pascal(actionOf(endpoint));
    return { object, operation: operation.endsWith(noun) ? operation : operation + noun };
  }

  #responsesOf(endpoint: Endpoint, category: Category, names: Names): Json {
    const known = this.#responses.get(endpoint);
    if (known) return known;
    const responses = {
      ...this.#successes.of(endpoint, category, names),
      ...failuresOf(endpoint, this.#components, this.#forClients),
    };
    this.#responses.set(endpoint, responses);
    return responses;
  }

  #requestBody({ endpoint, nameInPath }: Operation, { operation }: Names): Json | undefined {
    const withName = bodyOf(endpoint, true);
    const schema = bodyOf(endpoint, !nameInPath);
    if (!schema || !withName) return undefined;
    const isSame = !nameInPath || JSON.stringify(schema) === JSON.stringify(withName);
    const name = emptyBodyName(schema) ?? (isSame ? operation : operation.replace(/^Create/, 'Ensure'));
    const example = endpoint.example?.body as Json | undefined;
    const { [nameFieldOf(endpoint)]: _, ...unnamed } = example ?? {};
    const { title = `${name}Request` } = schema as { title?: string };
    const whole = isSame || this.#forClients ? undefined : `${operation}Request`;
    const reference = this.#schemas.named(title, schema, nonEmpty(endpoint, schema), whole);
    const content: Record<string, Json> = {
      'application/json': {
        schema: reference,
        ...(example && Object.keys(example).length > 0 ? { example: isSame ? example : unnamed } : {}),
      },
    };
    const textTypes = this.#forClients ? [] : Object.keys(endpoint.textBodies ?? {});
    for (const type of textTypes) content[type] = { schema: { type: 'string' } };
    const required = endpoint.bodyRequired ?? false;
    return this.#components.add('requestBodies', name, { ...(required ? { required } : {}), content });
  }

  #descriptionOf({ endpoint, category, aliasOf, ensures }: Operation): string {
    if (aliasOf !== undefined) return 'Alias.';
    if (ensures !== undefined) return `Like \`${ensures}\`, but returns an existing object unchanged.`;
    const permission = this.#permissionOf({ endpoint, category });
    return endpoint.description === undefined ? permission : `${endpoint.description} ${permission}`;
  }

  #permissionOf({ endpoint, category }: Pick<Operation, 'endpoint' | 'category'>): string {
    const { privilege, on, orWithin, orSelf } = endpoint.permission;
    if (on === 'caller') return 'Callers have access to their own only.';
    const parent = this.#categories.find(({ name }) => name === category.parent);
    const object = {
      object: `the ${category.singular}`,
      parent: parent ? `the ${parent.singular}` : `all ${category.name}`,
      target: `the ${category.singular} or what it concerns`,
    }[on].replaceAll('_', ' ');
    const within = orWithin ? ' or on something in it' : '';
    const self = orSelf ? ', unless it is the caller’s own' : '';
    return `Requires the privilege \`${privilege}\` on ${object}${within}${self}.`;
  }
}
