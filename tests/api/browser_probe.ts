// Imports the modules that it is given as a browser would: without the modules and globals of Node.js. Prints how many declare a category.
import { isBuiltin, registerHooks } from 'node:module';

registerHooks({
  resolve(specifier, context, next) {
    if (isBuiltin(specifier)) throw new Error(`${context.parentURL} imports ${specifier}`);
    return next(specifier, context);
  },
});
const modules = process.argv.slice(2);
const write = console.log;
for (const name of ['process', 'Buffer', 'global', 'setImmediate']) Reflect.deleteProperty(globalThis, name);
let declared = 0;
for (const module of modules) {
  const exported = Object.values((await import(module)) as Record<string, unknown>);
  if (exported.some((value) => typeof value === 'object' && value !== null && 'endpoints' in value)) declared++;
}
write(declared);
