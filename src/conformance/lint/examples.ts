// Makes the examples of the rules: a small OpenAPI document in YAML with one operation, in which an example changes one thing.

export interface Example {
  readonly path?: string;
  readonly method?: string;
  /** The names of the path parameters. */
  readonly parameters?: readonly string[];
  /** Further parameters, as YAML in one line each. */
  readonly others?: readonly string[];
  /** The request body, as YAML in one line. */
  readonly body?: string;
  readonly status?: string;
  /** The response, as YAML in one line; by default one with the envelope. */
  readonly response?: string;
  /** The schema of `result`, as YAML in one line. */
  readonly result?: string;
  readonly more?: string;
}

const envelopeOf = (result: string) =>
  `{ type: object, required: [code, message, result], properties: { code: { type: string }, message: { type: string }, result: ${result} } }`;

/** @param more lines at the root of the document. */
export function ok({
  path = '/api/v1/tables',
  method = 'get',
  parameters = [],
  others = [],
  body,
  status = '200',
  result = '{ type: object }',
  response = `{ description: Success., content: { application/json: { schema: ${envelopeOf(result)} } } }`,
  more,
}: Example): string {
  const all = [
    ...parameters.map((name) => `{ name: ${name}, in: path, required: true, schema: { type: string } }`),
    ...others,
  ];
  return [
    'openapi: 3.1.0',
    'info: { title: Example, version: "1" }',
    'paths:',
    `  ${path}:`,
    `    ${method}:`,
    ...(all.length > 0 ? ['      parameters:', ...all.map((parameter) => `        - ${parameter}`)] : []),
    ...(body === undefined ? [] : [`      requestBody: ${body}`]),
    '      responses:',
    `        "${status}": ${response}`,
    ...(more === undefined ? [] : [more]),
  ].join('\n');
}

export const jsonBody = (schema: string): string => `{ content: { application/json: { schema: ${schema} } } }`;
export { envelopeOf };
