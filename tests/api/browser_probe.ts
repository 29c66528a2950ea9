// Imports the modules that it is given as a browser would: without the modules and globals of Node.js. Prints the names of the categories that they
// declare, as JSON.
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
interface Declared {
  readonly name: string;
  readonly parent?: Declared;
}
/** Categories share a name under different parents. */
const pathOf = ({ name, parent }: Declared): string => (parent ? `${parent.name}/${name}` : name);
const names: unknown[] = [];
for (const module of modules) {
  for (const value of Object.values((await import(module)) as Record<string, unknown>)) {
    if (typeof value === 'object' && value !== null && 'endpoints' in value && 'name' in value)
      names.push(pathOf(value as unknown as Declared));
  }
}
write(JSON.stringify(names.sort()));
