// Joins a declared category and its handlers into the category that the router serves.
import type { Code } from '../standard/codes.ts';
import type { Category, Endpoint } from '../standard/endpoint.ts';
import type { DeclaredCategory, DeclaredEndpoint } from './declare.ts';
import type { Handlers } from './handlers.ts';

/** The context of a handler that may change something. */
type Around<Context> = <T>(work: () => Promise<T>, context: Context) => Promise<T>;

export function implementWith<C extends DeclaredCategory, Context>(
  declared: C,
  handlers: Handlers<C, Context>,
  around: Around<Context> = (work) => work(),
): Category<Context> {
  const { parent, endpoints, ...category }: DeclaredCategory = declared;
  return {
    ...category,
    ...(parent ? { parent: parent.name } : {}),
    endpoints: Object.entries(endpoints).map(([operation, endpoint]) => ({
      ...withHandler(operation, endpoint, handlers[operation], around),
      codes: [...new Set([...(endpoint.codes ?? []), ...impliedCodes(declared, endpoint)])],
    })),
  };
}

/** The codes that follow from the category, the body and what the engine must be capable of. That an object may not exist follows from the path of its endpoint alone. */
function impliedCodes(
  { parent, idField }: DeclaredCategory,
  { on, verb, named, body, needs }: DeclaredEndpoint,
): Code[] {
  const codes: Code[] = [];
  const isNamed = body?.properties.newName !== undefined;
  const creates = verb === 'create' && named !== false;
  if (parent && on === 'collection') codes.push('OBJECT_NOT_FOUND');
  if (isNamed || creates) codes.push('OBJECT_ALREADY_EXISTS');
  if (isNamed || (creates && idField === undefined)) codes.push('INVALID_NAME');
  if (needs) codes.push('NOT_SUPPORTED_BY_ENGINE');
  if (body?.properties.notify) codes.push('HOST_NOT_ALLOWED');
  return codes;
}

/** The types of a handler are checked at its definition; the router calls all handlers with the same types. */
function withHandler<Context>(
  operation: string,
  endpoint: DeclaredEndpoint,
  handler: unknown,
  around: Around<Context>,
): Endpoint<Context> {
  const own = handler as Endpoint<Context>['handle'];
  const handle: typeof own = (input, context) => around(() => own(input, context), context);
  const { verb } = endpoint;
  return {
    codes: [],
    since: 'v2',
    ...(verb === 'action' ? { action: operation } : {}),
    ...endpoint,
    handle: verb === 'list' || verb === 'get' ? own : handle,
  };
}
