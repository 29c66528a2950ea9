// Rules about parameters, headers and credentials (rest-standard A5, A6).
import { clauses } from '../clauses.ts';
import type { OpenApiDocument, Operation, Parameter } from '../document/openapi.ts';
import { jsonBody, ok } from './examples.ts';
import { nameOf, operationsOf } from './method_rules.ts';
import type { Finding, Rule } from './rule.ts';
import { extensionHeader, isStandardHeader } from './standard_headers.ts';

const queryParametersMax = 2;
const inQuery = ({ parameters }: Operation): readonly Parameter[] => parameters.filter((each) => each.in === 'query');
const query = (name: string) => `{ name: ${name}, in: query, schema: { type: string } }`;
const header = (name: string) => `{ name: ${name}, in: header, schema: { type: string } }`;

const queryMaximum: Rule = {
  id: 'query-max',
  title: `An operation has at most ${queryParametersMax} query parameters.`,
  clauses: [clauses.queryMaximum],
  doc: 'More parameters are the fields of a body, such as of a search with POST.',
  good: ok({ others: [query('pageSize'), query('pageToken')] }),
  bad: ok({ others: [query('pageSize'), query('pageToken'), query('state')] }),
  check: (document) =>
    operationsOf(document).flatMap((operation): Finding[] => {
      const names = inQuery(operation).map(({ name }) => name);
      if (names.length <= queryParametersMax) return [];
      const message = `${nameOf(operation)} has ${names.length} query parameters (${names.slice(0, 8).join(', ')}${names.length > 8 ? ', ...' : ''}): more than ${queryParametersMax} go into a body`;
      return [{ message, at: operation.at }];
    }),
};

const queryWithBody: Rule = {
  id: 'query-with-body',
  title: 'No operation has both query parameters and a body.',
  clauses: [clauses.queryOrBody],
  doc: 'Put the query parameters into the body.',
  good: ok({ path: '/api/v1/tables/search', method: 'post', body: jsonBody('{ type: object }') }),
  bad: ok({
    path: '/api/v1/tables/search',
    method: 'post',
    others: [query('pageSize')],
    body: jsonBody('{ type: object }'),
  }),
  check: (document) =>
    operationsOf(document).flatMap((operation): Finding[] => {
      const names = inQuery(operation).map(({ name }) => name);
      if (names.length === 0 || !operation.body) return [];
      const message = `${nameOf(operation)} has a body and query parameters (${names.join(', ')}): put them into the body`;
      return [{ message, at: operation.at }];
    }),
};

const pathParameters: Rule = {
  id: 'path-parameters',
  title: 'Every parameter of the path is declared and required.',
  clauses: [clauses.pathParameters],
  doc: 'The parameters in braces and those declared with `in: path` are the same.',
  good: ok({ path: '/api/v1/tables/{table}', parameters: ['table'] }),
  bad: ok({ path: '/api/v1/tables/{table}' }),
  check: (document) => operationsOf(document).flatMap(pathParameterProblems),
};

function pathParameterProblems(operation: Operation): Finding[] {
  const { template } = operation.pathItem;
  const inTemplate = new Set([...template.matchAll(/\{([^{}]+)\}/g)].map(([, name]) => name as string));
  const declared = new Map(operation.parameters.filter((each) => each.in === 'path').map((each) => [each.name, each]));
  const findings: Finding[] = [];
  for (const name of inTemplate)
    if (!declared.has(name) && !operation.hasUnknownParameters)
      findings.push({ message: `${nameOf(operation)} does not declare its path parameter ${name}`, at: operation.at });
  for (const [name, { isRequired, at }] of declared) {
    if (!inTemplate.has(name))
      findings.push({
        message: `${nameOf(operation)} has no {${name}} in its path: a path parameter is a part of the hierarchy`,
        at,
      });
    else if (!isRequired)
      findings.push({
        message: `the path parameter ${name} of ${nameOf(operation)} is not required: set required: true`,
        at,
      });
  }
  return findings;
}

/** The names of headers, each with its first place. */
function headersOf(document: OpenApiDocument): ReadonlyMap<string, Finding['at']> {
  const inRequests = operationsOf(document).flatMap(({ parameters }) =>
    parameters.filter((each) => each.in === 'header'),
  );
  const inResponses = operationsOf(document).flatMap(({ responses }) => responses.flatMap(({ headers }) => headers));
  const credentials = document.securitySchemes
    .filter((scheme) => scheme.in === 'header')
    .map(({ parameter, at }) => ({ name: parameter, at }));
  const places = new Map<string, Finding['at']>();
  for (const { name, at } of [...inRequests, ...inResponses, ...credentials])
    if (!places.has(name)) places.set(name, at);
  return places;
}

const headerNames: Rule = {
  id: 'header-names',
  title: 'Headers are standard HTTP fields or x-service-{name}.',
  clauses: [clauses.standardHeaders, clauses.extensionHeaders],
  doc: 'Covers headers of requests, of responses and of credentials; each name is reported once, at its first place. Standard fields are those that IANA registers as permanent; their case does not matter. An extension is in lower case, its words joined by hyphens.',
  good: ok({ others: [header('If-Match'), header('x-service-request-id')] }),
  bad: ok({ others: [header('X-Request-ID')] }),
  check: (document) =>
    [...headersOf(document)]
      .filter(([name]) => !isStandardHeader(name) && !extensionHeader.test(name))
      .map(([name, at]) => ({
        message: `the header ${name} is neither a standard HTTP field nor x-service-{name} in lower case: rename it, such as ${suggested(name)}`,
        at,
      })),
};

const suggested = (name: string): string =>
  `x-service-${
    name
      .replace(/^x-(service-)?/i, '')
      .replaceAll(/(?<=[a-z0-9])(?=[A-Z])/g, '-')
      .replaceAll(/[^a-zA-Z0-9]+/g, '-')
      .replaceAll(/^-|-$/g, '')
      .toLowerCase() || 'name'
  }`;

const credentialsPlace: Rule = {
  id: 'credentials-place',
  title: 'Credentials are in a header.',
  clauses: [clauses.credentials],
  doc: 'An API key in the query is reported. Cookies are sent in a header.',
  good: ok({ more: 'components: { securitySchemes: { bearer: { type: http, scheme: bearer } } }' }),
  bad: ok({ more: 'components: { securitySchemes: { key: { type: apiKey, in: query, name: key } } }' }),
  check: ({ securitySchemes }) =>
    securitySchemes
      .filter((scheme) => scheme.in === 'query')
      .map(({ name, parameter, at }) => ({
        message: `the credentials "${name}" are in the query parameter ${parameter}: send them in the header Authorization`,
        at,
      })),
};

export const parameterRules: readonly Rule[] = [
  queryMaximum,
  queryWithBody,
  pathParameters,
  headerNames,
  credentialsPlace,
];
