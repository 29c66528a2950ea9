// Loads packages at their first use, if they are slow to load and not needed at startup.
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

/** Returns a function whose first call loads the package synchronously. */
export function lazyPackage<T>(name: string): () => T {
  let loaded: T | undefined;
  return () => {
    loaded ??= require(name) as T;
    return loaded;
  };
}
