// An OpenAPI document (3.x, or Swagger 2.0) as the rules read it: operations with their whole paths, parameters, bodies and responses, each
// with its place in the document. Tolerant: what is not of the expected form is left out.
import { child, children, elements, fieldsOf, isObject, listOf, type Node, type Path, resolve } from './nodes.ts';

export const methods = ['get', 'put', 'post', 'delete', 'patch'] as const;
export type Method = (typeof methods)[number];

export interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly isRequired: boolean;
  readonly at: Path;
}

export interface Content {
  readonly mediaType: string;
  /** Undefined: no schema is given. */
  readonly schema: Node | undefined;
  readonly at: Path;
}

export interface Body {
  readonly contents: readonly Content[];
  readonly at: Path;
}

export interface Response {
  /** A status, a range such as `4XX`, or `default`. */
  readonly status: string;
  /** Whether it is described in another document, so that nothing is known about its contents. */
  readonly isElsewhere: boolean;
  readonly contents: readonly Content[];
  readonly headers: readonly { readonly name: string; readonly at: Path }[];
  /** Where the operation names it. */
  readonly at: Path;
}

export interface Operation {
  readonly method: Method;
  readonly pathItem: PathItem;
  readonly parameters: readonly Parameter[];
  /** Whether some parameters are described in another document. */
  readonly hasUnknownParameters: boolean;
  readonly body: Body | undefined;
  readonly responses: readonly Response[];
  readonly at: Path;
}

export interface PathItem {
  /** As the document has it. */
  readonly template: string;
  /** With the path of the first server, or the base path. */
  readonly fullPath: string;
  /** Also those whose operations are described in another document. */
  readonly methods: readonly Method[];
  readonly operations: readonly Operation[];
  /** Whether the document has paths below this one. */
  readonly hasBelow: boolean;
  readonly at: Path;
}

export interface SecurityScheme {
  readonly name: string;
  readonly in: string;
  readonly parameter: string;
  readonly at: Path;
}

export interface OpenApiDocument {
  readonly root: Node;
  readonly pathItems: readonly PathItem[];
  readonly securitySchemes: readonly SecurityScheme[];
}

/** Whether a value is a document that can be read. */
export function isOpenApi(value: unknown): boolean {
  const { openapi, swagger } = fieldsOf(value);
  return (typeof openapi === 'string' && openapi.startsWith('3.')) || String(swagger) === '2.0' || swagger === 2;
}

export function readOpenApi(value: unknown): OpenApiDocument {
  const root: Node = { value, at: [] };
  const paths = child(root, 'paths');
  const templates = Object.keys(fieldsOf(paths?.value)).map(anonymous);
  const above = new Set(templates.flatMap((template) => parentsOf(template)));
  const schemes = child(root, 'components', 'securitySchemes') ?? child(root, 'securityDefinitions');
  return {
    root,
    pathItems: paths ? children(paths).flatMap((item) => pathItem(root, item, above)) : [],
    securitySchemes: schemes ? children(schemes).flatMap((scheme) => securityScheme(root, scheme.key, scheme)) : [],
  };
}

function securityScheme(root: Node, name: string, node: Node): SecurityScheme[] {
  const found = resolve(root, node);
  const { type, in: place, name: parameter } = fieldsOf(found?.value);
  if (!found || type !== 'apiKey' || typeof place !== 'string' || typeof parameter !== 'string') return [];
  return [{ name, in: place, parameter, at: found.at }];
}

/** With parameters of no name: documents call the same object differently in different paths. */
const anonymous = (template: string): string => template.replaceAll(/\{[^{}]*\}/g, '{}');

const parentsOf = (template: string): string[] =>
  [...template.matchAll(/\//g)].map(({ index }) => template.slice(0, index)).filter((parent) => parent !== '');

function pathItem(root: Node, node: Node & { readonly key: string }, above: ReadonlySet<string>): PathItem[] {
  const template = node.key;
  const found = resolve(root, node);
  if (!found || !isObject(found.value) || !template.startsWith('/')) return [];
  const operations: Operation[] = [];
  const fullPath = `${basePathOf(root, found)}${template}`;
  const declared = methods.filter((method) => child(found, method));
  const hasBelow = above.has(anonymous(template));
  const item: PathItem = { template, fullPath, methods: declared, operations, hasBelow, at: node.at };
  for (const method of declared) {
    const operation = resolve(root, child(found, method));
    if (operation && isObject(operation.value)) operations.push(readOperation(root, item, found, method, operation));
  }
  return [item];
}

/** Without a slash at the end. */
function basePathOf(root: Node, item: Node): string {
  const { basePath } = fieldsOf(root.value);
  const servers = child(item, 'servers') ?? child(root, 'servers');
  const { url, variables } = fieldsOf(listOf(servers?.value)[0]);
  if (typeof url !== 'string') return typeof basePath === 'string' ? basePath.replace(/\/+$/, '') : '';
  const whole = url.replaceAll(/\{([^}]*)\}/g, (_, name: string) =>
    String(fieldsOf(fieldsOf(variables)[name]).default ?? `{${name}}`),
  );
  return (/^(?:[^/]*:)?\/\/[^/]*(.*)$/.exec(whole)?.[1] ?? (whole.startsWith('/') ? whole : '')).replace(/\/+$/, '');
}

function readOperation(root: Node, item: PathItem, itemNode: Node, method: Method, operation: Node): Operation {
  const named = [child(itemNode, 'parameters'), child(operation, 'parameters')].flatMap((list) =>
    list ? elements(list) : [],
  );
  const parameterNodes = named.flatMap((node) => resolve(root, node) ?? []);
  // A parameter of the operation replaces that of the path with the same name and place.
  const parameters = new Map(
    parameterNodes.map((node) => {
      const { name, in: place, required } = fieldsOf(node.value);
      const parameter = { name: String(name), in: String(place), isRequired: required === true, at: node.at };
      return [`${parameter.in} ${parameter.name}`, parameter];
    }),
  );
  return {
    method,
    pathItem: item,
    parameters: [...parameters.values()].filter(({ in: place }) => place !== 'body' && place !== 'formData'),
    hasUnknownParameters: parameterNodes.length < named.length,
    body: bodyOf(root, operation, parameterNodes),
    responses: responsesOf(root, operation),
    at: operation.at,
  };
}

function contentsOf(root: Node, holder: Node): Content[] {
  const content = child(holder, 'content');
  if (!content) return [];
  return children(content).flatMap((media) => {
    const found = resolve(root, media);
    return found ? [{ mediaType: essence(media.key), schema: child(found, 'schema'), at: found.at }] : [];
  });
}

/** The media type without parameters. */
const essence = (mediaType: string): string => mediaType.split(';')[0]?.trim().toLowerCase() ?? '';

/** The media types that a Swagger 2.0 operation consumes or produces. */
function mediaTypes(root: Node, operation: Node, key: 'consumes' | 'produces'): string[] {
  const list = child(operation, key) ?? child(root, key);
  const named = listOf(list?.value)
    .filter((each) => typeof each === 'string')
    .map(essence);
  return named.length > 0 ? named : ['application/json'];
}

function bodyOf(root: Node, operation: Node, parameterNodes: readonly Node[]): Body | undefined {
  const body = resolve(root, child(operation, 'requestBody'));
  if (body) return { contents: contentsOf(root, body), at: body.at };
  const inBody = parameterNodes.find(({ value }) => fieldsOf(value).in === 'body');
  const inForm = parameterNodes.find(({ value }) => fieldsOf(value).in === 'formData');
  const parameter = inBody ?? inForm;
  if (!parameter) return undefined;
  const { at } = parameter;
  const types = mediaTypes(root, operation, 'consumes');
  const sent = inBody || !types.includes('application/json') ? types : ['application/x-www-form-urlencoded'];
  return { contents: sent.map((mediaType) => ({ mediaType, schema: child(parameter, 'schema'), at })), at };
}

function responsesOf(root: Node, operation: Node): Response[] {
  const responses = child(operation, 'responses');
  if (!responses) return [];
  return children(responses)
    .filter(({ key }) => !key.startsWith('x-'))
    .flatMap((named) => {
      const found = resolve(root, named);
      const response = { status: named.key, contents: [], headers: [], at: named.at };
      if (!found) return { ...response, isElsewhere: true };
      if (!isObject(found.value)) return [];
      const schema = child(found, 'schema');
      const contents = schema
        ? mediaTypes(root, operation, 'produces').map((mediaType) => ({ mediaType, schema, at: found.at }))
        : contentsOf(root, found);
      const headers = child(found, 'headers');
      return {
        ...response,
        isElsewhere: false,
        contents,
        headers: headers ? children(headers).map(({ key, at }) => ({ name: key, at })) : [],
      };
    });
}
