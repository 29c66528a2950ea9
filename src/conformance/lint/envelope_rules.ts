// Rules about what responses and bodies contain (rest-standard A3).
import { clauses } from '../clauses.ts';
import { child, children, elements, isObject, type Node, resolve } from '../document/nodes.ts';
import type { Content, OpenApiDocument, Operation, Response } from '../document/openapi.ts';
import { isOnly, type Shape, shapesOf } from '../document/shapes.ts';
import { isCamelCase, isFieldName, isUriName } from '../field_names.ts';
import { ok } from './examples.ts';
import { nameOf, operationsOf } from './method_rules.ts';
import type { Finding, Rule } from './rule.ts';

const isJson = ({ mediaType }: Content): boolean => mediaType === 'application/json' || mediaType === '*/*';

const responsesOf = (document: OpenApiDocument): readonly { operation: Operation; response: Response }[] =>
  operationsOf(document).flatMap((operation) => operation.responses.map((response) => ({ operation, response })));

const placeOf = (operation: Operation, { status }: Response): string => `${status} of ${nameOf(operation)}`;

const responseBody: Rule = {
  id: 'response-body',
  title: '200, 201 and 202 have a body.',
  clauses: [clauses.successBodies],
  doc: 'A failure may be without a body.',
  good: ok({}),
  bad: ok({ response: '{ description: Success. }' }),
  check: (document) =>
    responsesOf(document)
      .filter(
        ({ response: { status, contents, isElsewhere } }) =>
          /^20[012]$/.test(status) && contents.length === 0 && !isElsewhere,
      )
      .map(({ operation, response }) => ({
        message: `${placeOf(operation, response)} has no body: answer with {"code", "message", "result"}`,
        at: response.at,
      })),
};

const responseJson: Rule = {
  id: 'response-json',
  title: 'Responses are application/json.',
  clauses: [clauses.envelope],
  doc: 'Other media types are reported too if the response has JSON besides. Files can be given by links, which are outside the API.',
  good: ok({}),
  bad: ok({ response: '{ description: Success., content: { text/csv: { schema: { type: string } } } }' }),
  check: (document) =>
    responsesOf(document).flatMap(({ operation, response }) =>
      response.contents
        .filter((content) => !isJson(content))
        .map(({ mediaType, at }) => ({
          message: `${placeOf(operation, response)} is ${mediaType}: a response is application/json`,
          at,
        })),
    ),
};

const envelopeTypes: Readonly<Record<string, string>> = { code: 'string', message: 'string', result: 'object' };

/** What keeps an alternative of a schema from being the envelope. */
function envelopeProblems(document: OpenApiDocument, shape: Shape): string[] {
  const { fields, required, isPartlyUnknown } = shape;
  if (!isOnly(shape, 'object'))
    return [shape.types.size === 0 ? 'has no type' : `may be ${[...shape.types].join(', ')}`];
  const problems: string[] = [];
  const missing = Object.keys(envelopeTypes).filter((name) => !fields.has(name) && !isPartlyUnknown);
  if (missing.length > 0) problems.push(`lacks ${missing.map((name) => `"${name}"`).join(', ')}`);
  for (const [name, type] of Object.entries(envelopeTypes)) {
    const field = fields.get(name);
    if (field && !shapesOf(document.root, field).every((each) => isOnly(each, type)))
      problems.push(`has a "${name}" that need not be of type ${type}`);
    if (field && !required.has(name) && !isPartlyUnknown) problems.push(`does not require "${name}"`);
  }
  const others = [...fields.keys()].filter((name) => !Object.hasOwn(envelopeTypes, name));
  if (others.length > 0)
    problems.push(`has further fields (${others.slice(0, 5).join(', ')}${others.length > 5 ? ', ...' : ''})`);
  return problems;
}

const envelope: Rule = {
  id: 'envelope',
  title: 'The body of a response is an object of code, message and result, and nothing else.',
  clauses: [clauses.envelope],
  doc: 'All three are required; code and message are strings, and result is an object. A schema that leads outside the document is not judged. Reported once for each schema.',
  good: ok({}),
  bad: ok({
    response:
      '{ description: Success., content: { application/json: { schema: { type: object, properties: { name: { type: string } } } } } }',
  }),
  check: (document) =>
    responsesOf(document).flatMap(({ operation, response }) =>
      response.contents.filter(isJson).flatMap(({ schema, at }): Finding[] => {
        const place = placeOf(operation, response);
        if (!schema) return [{ message: `${place} has no schema: describe {"code", "message", "result"}`, at }];
        const problems = new Set(shapesOf(document.root, schema).flatMap((shape) => envelopeProblems(document, shape)));
        if (problems.size === 0) return [];
        const message = `${place} is not the envelope: it ${[...problems].join('; ')}`;
        return [{ message, at: resolve(document.root, schema)?.at ?? schema.at }];
      }),
    ),
};

/** Calls back for each schema that a schema contains, itself included, each once in all calls with the same set. */
function eachSchema(root: Node, start: Node, visited: Set<unknown>, visit: (schema: Node) => void): void {
  const pending: Node[] = [start];
  for (let next = pending.pop(); next; next = pending.pop()) {
    const schema = resolve(root, next);
    if (!schema || !isObject(schema.value) || visited.has(schema.value)) continue;
    visited.add(schema.value);
    visit(schema);
    for (const key of ['properties', 'patternProperties', 'dependentSchemas']) {
      const named = child(schema, key);
      if (named) pending.push(...children(named));
    }
    for (const key of ['allOf', 'oneOf', 'anyOf', 'prefixItems']) {
      const list = child(schema, key);
      if (list) pending.push(...elements(list));
    }
    for (const key of ['items', 'additionalProperties', 'then', 'else', 'contains', 'unevaluatedProperties']) {
      const single = child(schema, key);
      if (single) pending.push(single);
    }
  }
}

const camelCase: Rule = {
  id: 'camel-case',
  title: 'JSON fields are camelCase.',
  clauses: [clauses.camelCase],
  doc: 'Covers the fields of request and response bodies in `application/json`, at every depth, once for each schema. Names that are data (`additionalProperties`, `patternProperties`) are not fields.',
  good: ok({ result: '{ type: object, properties: { createdAt: { type: string } } }' }),
  bad: ok({ result: '{ type: object, properties: { created_at: { type: string } } }' }),
  check: (document) => {
    const findings: Finding[] = [];
    const visited = new Set<unknown>();
    const contents = operationsOf(document).flatMap(({ body, responses }) => [
      ...(body?.contents ?? []),
      ...responses.flatMap((response) => response.contents),
    ]);
    for (const { schema } of contents.filter(isJson)) {
      if (!schema) continue;
      eachSchema(document.root, schema, visited, (found) => {
        const properties = child(found, 'properties');
        for (const { key, at } of properties ? children(properties) : [])
          if (!isFieldName(key))
            findings.push({ message: `the field "${key}" is not camelCase: ${adviceFor(key)}`, at });
      });
    }
    return findings;
  },
};

function adviceFor(name: string): string {
  const words = name.split(/[^a-zA-Z0-9]+/).filter((word) => word !== '');
  const [first = '', ...others] = words;
  const joined = [
    first.slice(0, 1).toLowerCase() + first.slice(1),
    ...others.map((word) => word.slice(0, 1).toUpperCase() + word.slice(1)),
  ].join('');
  return isCamelCase(joined) ? `rename it, such as ${joined}` : 'rename it';
}

const uriDepthMax = 3;

/** Whether a schema has a field that is a URI. Unknown parts are taken for having one. */
function hasUri(document: OpenApiDocument, schema: Node | undefined, depth = 0): boolean {
  return shapesOf(document.root, schema).every((shape) => {
    if (shape.isPartlyUnknown) return true;
    const fields = [...shape.fields];
    if (fields.some(([name, field]) => isUriName(name) || isUriFormat(document, field))) return true;
    if (depth >= uriDepthMax) return false;
    return fields.some(([, field]) => {
      const resolved = resolve(document.root, field);
      const items = resolved && child(resolved, 'items');
      const nested = items ?? (resolved && child(resolved, 'properties') ? resolved : undefined);
      return nested !== undefined && hasUri(document, nested, depth + 1);
    });
  });
}

function isUriFormat(document: OpenApiDocument, field: Node): boolean {
  const resolved = resolve(document.root, field);
  return isObject(resolved?.value) && /^(uri|iri)(-reference)?$/.test(String(resolved.value.format));
}

const uriRule = (id: string, status: '201' | '202', what: string): Pick<Rule, 'check' | 'id'> => ({
  id,
  check: (document) =>
    responsesOf(document).flatMap(({ operation, response }) => {
      if (response.status !== status) return [];
      return response.contents.filter(isJson).flatMap(({ schema }): Finding[] => {
        if (!schema) return [];
        const results = shapesOf(document.root, schema).map(({ fields }) => fields.get('result'));
        // Without a result it is not the envelope, which is reported there; the object itself is checked.
        const judged = results.some((result) => result === undefined) ? [schema] : results;
        if (judged.every((result) => hasUri(document, result))) return [];
        const message = `${placeOf(operation, response)} has no URI ${what}: add it to the result, such as "uri"`;
        return [{ message, at: resolve(document.root, schema)?.at ?? schema.at }];
      });
    }),
});

const createdUri: Rule = {
  ...uriRule('created-uri', '201', 'of the object that was created'),
  title: 'The body of 201 has the URI of the object.',
  clauses: [clauses.createdUri],
  doc: 'A field that is called `uri`, `url`, `href`, `location` or `self`, that ends in `Uri` or `Url`, or whose format is `uri` or `uri-reference`, at most three levels below the result.',
  good: ok({ method: 'post', status: '201', result: '{ type: object, properties: { uri: { type: string } } }' }),
  bad: ok({ method: 'post', status: '201', result: '{ type: object, properties: { name: { type: string } } }' }),
};

const taskUri: Rule = {
  ...uriRule('task-uri', '202', 'of the task'),
  title: 'The body of 202 has the URI of the task.',
  clauses: [clauses.taskUri, clauses.task],
  doc: 'The same fields as for created-uri.',
  good: ok({
    path: '/api/v1/tables/{table}/optimize',
    method: 'post',
    parameters: ['table'],
    status: '202',
    result: '{ type: object, properties: { taskId: { type: string }, uri: { type: string } } }',
  }),
  bad: ok({
    path: '/api/v1/tables/{table}/optimize',
    method: 'post',
    parameters: ['table'],
    status: '202',
    result: '{ type: object, properties: { taskId: { type: string } } }',
  }),
};

export const envelopeRules: readonly Rule[] = [responseBody, responseJson, envelope, camelCase, createdUri, taskUri];
