// What a person at a terminal can do about a failure of the API, whose own advice speaks of endpoints and of fields of the response: here they
// are commands, and values.
import { categoriesApi } from '../../api/categories.ts';
import type { DeclaredCategory, DeclaredEndpoint } from '../../api/declare.ts';
import { adviceFor } from '../../client/advice.ts';
import type { TabulariumError } from '../../client/errors.ts';
import { codes } from '../../standard/codes.ts';
import { commandName } from './examples.ts';

const shownCharactersMax = 2_000;

/** Of codes for which something else helps on a command line than in a program. */
const ownAdvice: Readonly<Record<string, string>> = {
  UNAUTHENTICATED:
    '"tabularium login" signs in; --token-file and the variable TABULARIUM_TOKEN come before the token of a profile',
  SQL_NOT_SUPPORTED:
    '"tabularium --help" lists the commands for what is not SQL; in a session, \\? lists what lists, describes and selects objects',
};

/** The command that failed accepts this flag. */
export type HasFlag = (flag: string) => boolean;

/** One or more lines. Those that say what `result` contains come first. */
export function adviceHere(error: TabulariumError, hasFlag: HasFlag): string {
  const { code, message, result } = error;
  const commands = commandsFor(message);
  if (commands.length > 0) {
    const quoted = commands.map((each) => `"tabularium ${each}"`);
    const list = [quoted.slice(0, -1).join(', '), quoted.at(-1)].filter((part) => part !== '').join(' and ');
    return `On the command line: ${list}; --help shows how.`;
  }
  const list = code === 'OBJECT_NOT_FOUND' ? listOf(String(result.category)) : undefined;
  if (list !== undefined) return `"tabularium ${list}" shows which exist; --help says how.`;
  const own = Object.hasOwn(ownAdvice, code) ? ownAdvice[code] : undefined;
  const declared = Object.hasOwn(codes, code) ? codes[code as keyof typeof codes].client : adviceFor(error);
  return own ?? withFlags(withValues(withoutAbsent(declared, result), result), hasFlag);
}

/** Leaves out what an advice says of fields that `result` does not have. */
function withoutAbsent(advice: string, result: TabulariumError['result']): string {
  const isAbsent = (part: string) =>
    [...part.matchAll(/`result\.(\w+)`/g)].some(([, name = '']) => result[name] === undefined);
  const parts = advice.replace(/\.$/, '').split('; ');
  const kept = parts.filter((part) => !isAbsent(part));
  if (kept.length === parts.length) return advice;
  const [first = '', ...more] = kept;
  if (first === '') return 'Correct what the message says.';
  return `${[first.charAt(0).toUpperCase() + first.slice(1), ...more].join('; ')}.`;
}

function withFlags(advice: string, hasFlag: HasFlag): string {
  if (hasFlag('--if-exists')) return advice.replace('use PUT', 'give --if-exists return');
  return advice.replace(/,? or use PUT/, hasFlag('--create') ? ', or leave out --create' : '');
}

/** The command that lists a category; undefined if none does. */
function listOf(category: string): string | undefined {
  const all: readonly DeclaredCategory[] = categoriesApi;
  const found = all.find(({ name, endpoints }) => name === category && Object.hasOwn(endpoints, 'list'));
  return found && `${commandName(found.name)} list`;
}

/** `result.name` becomes its value; what is no single value is listed before. The command has listed violations already. */
function withValues(advice: string, result: TabulariumError['result']): string {
  const listed: string[] = [];
  const list = (name: string, value: unknown) => {
    if (name !== 'violations') listed.push(`  ${name}: ${JSON.stringify(value).slice(0, shownCharactersMax)}`);
  };
  const text = advice
    .replaceAll(/\b(what|that) `result\.(\w+)` lists\b/g, (all, word: string, name: string) => {
      if (result[name] === undefined) return all;
      list(name, result[name]);
      return word === 'what' ? 'what is listed above' : 'that are listed above';
    })
    .replaceAll(/`result\.(\w+)`/g, (all, name: string) => {
      const value = result[name];
      if (typeof value === 'string' || typeof value === 'number') return `${name} ${JSON.stringify(value)}`;
      if (value !== undefined && value !== null) list(name, value);
      return all.replace('result.', '');
    })
    .replaceAll(/`result`/g, (all) => {
      for (const [name, value] of Object.entries(result)) list(name, value);
      return listed.length > 0 ? 'the list above' : all;
    });
  return [...listed, text].join('\n');
}

const endpointNamed = /\b(GET|POST|PATCH|DELETE) (?:\.\.\.|\/api\/v2)((?:\/(?:\w+|\{\w+\}))+)/g;
const verbs: Readonly<Record<string, string>> = { PATCH: 'update', DELETE: 'delete' };

/** The commands for the endpoints that a message names, by the declarations: `tables create` for `POST .../tables`. */
export function commandsFor(message: string): readonly string[] {
  const found = [...message.matchAll(endpointNamed)].map(([, method = '', path = '']) => commandFor(method, path));
  return [...new Set(found.filter((each) => each !== undefined))];
}

function commandFor(method: string, path: string): string | undefined {
  const segments = path.split('/').slice(1);
  const isObject = (segment: string | undefined) => segment?.startsWith('{') === true;
  const last = segments.at(-1) ?? '';
  const verb = verbs[method] ?? (method === 'GET' ? (isObject(last) ? 'get' : 'list') : 'create');
  const own = segments.findLast((segment) => categoriesApi.some(({ name }) => name === segment));
  const isAction = !isObject(last) && last !== own && last !== 'create';
  // Of an action without its category: of the first that has it.
  const all: readonly DeclaredCategory[] = categoriesApi;
  for (const category of own === undefined ? all : all.filter(({ name }) => name === own))
    for (const [operation, endpoint] of Object.entries<DeclaredEndpoint>(category.endpoints)) {
      const isIt = isAction
        ? endpoint.verb === 'action' && (endpoint.action ?? operation) === last
        : endpoint.verb === verb;
      if (isIt) return `${commandName(category.name)} ${commandName(operation)}`;
    }
  return undefined;
}
