// The success responses of the OpenAPI document: the envelope around a record, a page of records, or the result of an action.
import { type Category, type Endpoint, isPaged } from '../endpoint.ts';
import { listKeyOf } from '../parameters.ts';
import { type TObject, type TSchema, Type } from '../type.ts';
import type { Components, Json, OpenApiOptions } from './components.ts';
import { pascal } from './names.ts';
import type { Schemas } from './schemas.ts';

/** What the document calls a category and its operations. */
export interface Names {
  /** `Table`. */
  readonly object: string;
  /** `CreateTable`. */
  readonly operation: string;
}

interface Success {
  readonly status: 200 | 201;
  /** The name of the schema of the result, and of the response unless there is a `responseName`. */
  readonly name: string;
  readonly responseName?: string;
  readonly result: Json;
  readonly example?: unknown;
  readonly headers?: readonly ('ETag' | 'Location')[];
}

const creation = { created: Type.Boolean({ description: 'False if the object already existed.' }) };

/** What the document states about the task of a 202. */
export interface TaskDescription {
  /** The category of tasks. */
  readonly category: Category;
  /** The result of a task by its type. */
  readonly results: Readonly<Record<string, TSchema>>;
  /** Operations on the task, by the name of the link; the parameter in their path is a field of its record. */
  readonly links: Readonly<Record<string, { readonly operationId: string; readonly parameter: string }>>;
}

export class Successes {
  readonly #components: Components;
  readonly #schemas: Schemas;
  readonly #forClients: boolean;
  readonly #tasks: TaskDescription | undefined;

  constructor(components: Components, schemas: Schemas, { forClients }: OpenApiOptions, tasks?: TaskDescription) {
    this.#forClients = forClients;
    this.#tasks = tasks;
    this.#components = components;
    this.#schemas = schemas;
  }

  /** The success responses of an endpoint, by status. */
  of(endpoint: Endpoint, category: Category, names: Names): Record<string, Json> {
    const success = this.#successOf(endpoint, category, names);
    return {
      ...(success ? { [success.status]: this.#response(success) } : {}),
      ...(endpoint.task && this.#tasks ? { 202: this.#accepted(endpoint.task, this.#tasks) } : {}),
    };
  }

  /** Undefined if it always responds with a task. */
  #successOf(endpoint: Endpoint, category: Category, names: Names): Success | undefined {
    switch (endpoint.verb) {
      case 'list':
        return this.#page(listKeyOf(category), category.record, names.object, category);
      case 'create':
        return this.#created(endpoint, category, names);
      case 'delete':
        return {
          status: 200,
          name: 'Deletion',
          result: {
            type: 'object',
            required: ['deleted'],
            properties: { deleted: { type: 'boolean', description: 'False if the object did not exist.' } },
          },
          example: { deleted: true },
        };
      case 'get':
      case 'update':
        return endpoint.result
          ? this.#resultOf(endpoint, endpoint.result, category, names)
          : this.#record(category, names);
      case 'action':
        return endpoint.result && this.#resultOf(endpoint, endpoint.result, category, names);
    }
  }

  #record(category: Category, { object }: Names): Success {
    return { status: 200, name: object, result: this.#recordSchema(category), headers: ['ETag'] };
  }

  /** The only place of the example of a record. */
  #recordSchema({ record, example }: Category): Json {
    return { ...this.#schemas.inline(record), examples: [example] };
  }

  #created(endpoint: Endpoint, category: Category, { object }: Names): Success {
    const record = this.#components.add('schemas', object, this.#recordSchema(category));
    const created = { status: 201, name: `Created${object}`, headers: ['Location', 'ETag'] } as const;
    if (endpoint.result === undefined) {
      const schema = Type.Object({ ...category.record.properties, ...creation }, { title: 'Creation' });
      return { ...created, result: this.#extending(category, record, schema) };
    }
    const result = this.#extending(category, record, endpoint.result as TObject);
    return { ...created, result, example: endpoint.example?.result };
  }

  /**
   * A schema with more fields than the record refers to the record. With a title, the other fields are a component. Generators of clients
   * lose the null of fields that are composed in this way, so they get the whole schema.
   */
  #extending(category: Category, record: Json, schema: TObject): Json {
    const known = Object.entries(category.record.properties);
    const isExtension = known.length > 0 && known.every(([name, field]) => schema.properties[name] === field);
    if (!isExtension || this.#forClients) return this.#schemas.inline(schema);
    const more = Object.entries(schema.properties).filter(([name]) => !Object.hasOwn(category.record.properties, name));
    const extension = Type.Object(Object.fromEntries(more));
    const { title } = schema as { title?: string };
    return {
      allOf: [record, title === undefined ? this.#schemas.inline(extension) : this.#schemas.named(title, extension)],
    };
  }

  #resultOf(endpoint: Endpoint, result: TSchema, category: Category, names: Names): Success {
    if (isPaged(endpoint) && endpoint.item) {
      const [key = ''] = Object.keys((result as TObject).properties);
      return this.#page(key, endpoint.item, names.object, category, endpoint.example?.result);
    }
    const { title } = result as { title?: string };
    const isRecord = result === category.record;
    const example = endpoint.example?.result;
    if (isRecord && !endpoint.creates && example === undefined) return this.#record(category, names);
    return {
      status: endpoint.creates ? 201 : 200,
      ...(isRecord
        ? {
            name: names.object,
            responseName: names.operation,
            result: this.#recordSchema(category),
            headers: endpoint.creates ? ['Location', 'ETag'] : ['ETag'],
          }
        : { name: title ?? `${names.operation}Result`, result: this.#schemas.inline(result) }),
      ...(example === undefined ? {} : { example }),
    };
  }

  /** A page of records, or of what a search finds: records with more fields. */
  #page(key: string, item: TObject, object: string, category: Category, example?: unknown): Success {
    const { title } = item as { title?: string };
    const record = this.#components.add('schemas', object, this.#recordSchema(category));
    const itemName = item === category.record ? object : (title ?? `Found${object}`);
    const items =
      item === category.record
        ? record
        : this.#components.add('schemas', itemName, this.#extending(category, record, item));
    return {
      status: 200,
      name: `${itemName}List`,
      result: {
        type: 'object',
        required: [key],
        properties: {
          [key]: { type: 'array', items },
          nextPageToken: { type: 'string' },
        },
      },
      ...(example === undefined ? {} : { example }),
    };
  }

  /** The envelope with the record of a task; of the declared type, unless generators of clients would lose the null of its fields. */
  #accepted(type: string, { category, results, links }: TaskDescription): Json {
    const { name, result } = this.#record(category, { object: pascal(category.singular), operation: '' });
    const envelope = this.#envelopeSchema(name, result);
    const declared = this.#forClients ? undefined : results[type];
    const typed = declared && { type: { const: type }, result: this.#schemas.describe(orNull(declared)) };
    const linked = Object.entries(links).map(([link, { operationId, parameter }]) => [
      link,
      this.#components.add('links', pascal(`_${link}`), {
        operationId,
        parameters: { [parameter]: `$response.body#/result/${parameter}` },
      }),
    ]);
    return this.#components.add('responses', typed ? `Accepted${pascal(`_${type}`)}` : 'AcceptedTask', {
      description: 'A task was submitted.',
      headers: headersOf(['Location']),
      content: {
        'application/json': {
          schema: typed ? { allOf: [envelope, { properties: { result: { properties: typed } } }] } : envelope,
        },
      },
      links: Object.fromEntries(linked),
    });
  }

  #response(success: Success): Json {
    return this.#envelope(success.status === 201 ? 'Created.' : 'Success.', success);
  }

  #envelope(
    description: string,
    { name, responseName = name, result, example, headers = [] }: Omit<Success, 'status'>,
  ): Json {
    return this.#components.add('responses', responseName, {
      description,
      headers: headersOf(headers),
      content: {
        'application/json': {
          schema: this.#envelopeSchema(name, result),
          ...(example === undefined ? {} : { example: { code: '0', message: 'OK', result: example } }),
        },
      },
    });
  }

  #envelopeSchema(name: string, result: Json): Json {
    return this.#components.add('schemas', `${name}Response`, {
      type: 'object',
      required: ['code', 'message', 'result'],
      properties: {
        code: { type: 'string', const: '0' },
        message: { type: 'string', const: 'OK' },
        result: this.#components.add('schemas', name, result),
      },
    });
  }
}

const orNull = (schema: TSchema): TSchema => Type.Union([schema, Type.Null()]);

const headersOf = (names: readonly string[]): Json => ({
  'x-service-request-id': { $ref: '#/components/headers/RequestId' },
  ...Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }])),
});
