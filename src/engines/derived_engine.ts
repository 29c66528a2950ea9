// Warehouses made from another one: with some methods replaced, all others passed on. Nothing here names a method, so that a new method of
// the port needs no change.
import type { EngineWarehouse } from './port/engine.ts';

type Method = (...parameters: readonly unknown[]) => unknown;

/** The names of the methods of the port. */
export type MethodName = {
  [K in keyof EngineWarehouse]-?: EngineWarehouse[K] extends (...parameters: never) => unknown ? K : never;
}[keyof EngineWarehouse];

/** The first argument of a method, and the value that it returns or its promise resolves to. */
export type ArgumentOf<K extends MethodName> = Parameters<EngineWarehouse[K]>[0];
export type ValueOf<K extends MethodName> = Awaited<ReturnType<EngineWarehouse[K]>>;

/** The methods that an adapter passes on to its process as they are: the argument is sent, and the value is the response. */
export type DirectMethods<K extends MethodName> = Pick<EngineWarehouse, K>;
/** The same as operations of the process: argument and value by name. */
export type DirectOperations<K extends MethodName> = { [N in K]: [ArgumentOf<N>, ValueOf<N>] };

/** @returns a method for each name, which calls `send`. The options are those with which the method is called, if it has any. */
export function directMethods<K extends MethodName>(
  names: readonly K[],
  send: (name: K, argument: ArgumentOf<K>, options: { readonly signal?: AbortSignal }) => Promise<unknown>,
): DirectMethods<K> {
  const methods = names.map((name) => [name, (argument: ArgumentOf<K>, options = {}) => send(name, argument, options)]);
  return Object.fromEntries(methods) as DirectMethods<K>;
}

/** As members of an object literal: a spread copies them, and they can be replaced. */
const visible = { enumerable: true, configurable: true };

/**
 * The members of `engine`, also those of its class, overridden by those of `replaced`. `wrap` gets each method that is not replaced.
 */
export function engineWith<E extends object, R extends object>(
  engine: E,
  replaced: R,
  wrap: (method: Method) => Method = (method) => method,
): E & R {
  const members: PropertyDescriptorMap = Object.getOwnPropertyDescriptors(replaced);
  for (let owner: object = engine; owner !== Object.prototype; owner = Object.getPrototypeOf(owner) as object)
    for (const [name, { get }] of Object.entries(Object.getOwnPropertyDescriptors(owner))) {
      if (name === 'constructor' || Object.hasOwn(members, name)) continue;
      const value: unknown = get ? undefined : Reflect.get(engine, name);
      members[name] =
        typeof value === 'function'
          ? { value: wrap(value.bind(engine) as Method), writable: true, ...visible }
          : { get: () => Reflect.get(engine, name) as unknown, ...visible };
    }
  return Object.defineProperties({}, members) as E & R;
}
