// Joins a declared category and its handlers into the category that the router serves.
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
    endpoints: Object.entries(endpoints).map(([operation, endpoint]) =>
      withHandler(operation, endpoint, handlers[operation], around),
    ),
  };
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
