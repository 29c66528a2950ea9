// Packages that a start does not need and that take long to load: loaded at their first use, for good.
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

/** The package is loaded by the first call of the function that this returns, in the same thread and before it returns. */
export function lazyPackage<T>(name: string): () => T {
  let loaded: T | undefined;
  return () => {
    loaded ??= require(name) as T;
    return loaded;
  };
}
