// The environment of the package and its launcher on a user's machine: that of a shell, and a Node that is too old.
import { delimiter } from 'node:path';

/**
 * As in a shell of the user: without the directories that npm prepends to PATH for a script. Debian's npm needs Debian's Node, and
 * the package must bring its own.
 */
export function userEnvironment(): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^npm_(lifecycle|package|command|execpath|node)/.test(name)),
  );
  env.PATH = (process.env.PATH ?? '')
    .split(delimiter)
    .filter((directory) => !/node_modules|node-gyp-bin/.test(directory))
    .join(delimiter);
  return env;
}

/** A CommonJS module to preload: it makes the running Node look as old as Debian 12's, which has no execve. */
export const oldNodePreload = `
Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '18.20.4' } });
process.execve = undefined;
`;
