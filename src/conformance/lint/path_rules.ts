// Rules about paths (rest-standard A1).
import { clauses } from '../clauses.ts';
import { type AccessPath, accessPathOf } from '../document/access_path.ts';
import type { OpenApiDocument, PathItem } from '../document/openapi.ts';
import { isPlural } from '../document/plural.ts';
import { ok } from './examples.ts';
import type { Finding, Rule } from './rule.ts';

export const partsOf = ({ fullPath, template, methods, hasBelow }: PathItem): AccessPath =>
  accessPathOf(fullPath, template, methods, hasBelow);

/** One finding for each path whose form or order has problems. */
const problemsOf =
  (key: 'formProblems' | 'orderProblems', advice: string) =>
  ({ pathItems }: OpenApiDocument): Finding[] =>
    pathItems.flatMap((item) => {
      const problems = partsOf(item)[key];
      if (problems.length === 0) return [];
      return [{ message: `the path ${item.fullPath} ${problems.join(', ')}: ${advice}`, at: item.at }];
    });

const pathForm: Rule = {
  id: 'path-form',
  title: 'A path begins with /api/ and a version, and consists of whole segments.',
  clauses: [clauses.pathForm],
  doc: 'The path of the first server (or `basePath`) belongs to the path. There is no empty segment, no slash at the end, no query, and a parameter is a whole segment.',
  good: ok({ path: '/api/v1/tables' }),
  bad: ok({ path: '/v1/tables' }),
  check: problemsOf('formProblems', 'write it as /api/{version}/{category}/{object}/...'),
};

const pathOrder: Rule = {
  id: 'path-order',
  title: 'Categories and objects alternate.',
  clauses: [clauses.alternation, clauses.collectionsAndObjects],
  doc: 'After the version comes a category, then an object in it, then a category below that object. An object may be written as its name (`/catalogs/default/databases`); a parameter is always an object.',
  good: ok({ path: '/api/v1/databases/{database}/tables', parameters: ['database'] }),
  bad: ok({ path: '/api/v1/databases/{database}/{table}', parameters: ['database', 'table'] }),
  check: problemsOf('orderProblems', 'put the category of each object before it'),
};

/** The names of categories, each with the first path that has it. */
function categoriesOf({ pathItems }: OpenApiDocument): Map<string, PathItem> {
  const found = new Map<string, PathItem>();
  for (const item of pathItems)
    for (const { kind, text } of partsOf(item).segments)
      if (kind === 'category' && !found.has(text)) found.set(text, item);
  return found;
}

const categoryNames =
  (isWrong: (name: string) => boolean, messageOf: (name: string, path: string) => string) =>
  (document: OpenApiDocument): Finding[] =>
    [...categoriesOf(document)]
      .filter(([name]) => isWrong(name))
      .map(([name, { fullPath, at }]) => ({ message: messageOf(name, fullPath), at }));

const categoryCase: Rule = {
  id: 'category-case',
  title: 'A category is lower snake_case.',
  clauses: [clauses.categoryNames],
  doc: 'Reported once for each category, at the first path that has it.',
  good: ok({ path: '/api/v1/saved_queries' }),
  bad: ok({ path: '/api/v1/savedQueries' }),
  check: categoryNames(
    (name) => !/^[a-z][a-z0-9]*(?:_[a-z0-9]+)*$/.test(name),
    (name, path) =>
      `the category "${name}" is not lower snake_case (first in ${path}): rename it, such as saved_queries`,
  ),
};

const categoryPlural: Rule = {
  id: 'category-plural',
  title: 'The last word of a category is plural.',
  clauses: [clauses.categoryNames],
  doc: 'Reported once for each category, at the first path that has it. A last segment that only POST and PUT have is an action instead, unless it is plural. Words are English; in doubt a word is taken for a plural.',
  good: ok({ path: '/api/v1/tables' }),
  bad: ok({ path: '/api/v1/table' }),
  check: categoryNames(
    (name) => !isPlural(name),
    (name, path) =>
      `the category "${name}" is not plural (first in ${path}): the last word of a category is plural, such as tables`,
  ),
};

/** Which method says the same. A deletion or change of a collection may concern several objects, for which there is no method. */
const verbs: Readonly<Record<'collection' | 'object', Readonly<Record<string, string>>>> = {
  collection: {
    ...Object.fromEntries(
      ['list', 'list_all', 'get', 'get_all', 'show', 'fetch', 'retrieve'].map((verb) => [verb, 'GET']),
    ),
    ...Object.fromEntries(['add', 'new', 'insert'].map((verb) => [verb, 'POST'])),
  },
  object: {
    ...Object.fromEntries(['get', 'show', 'fetch', 'retrieve', 'read'].map((verb) => [verb, 'GET'])),
    ...Object.fromEntries(['delete', 'remove', 'drop', 'destroy'].map((verb) => [verb, 'DELETE'])),
    ...Object.fromEntries(['update', 'modify', 'edit', 'patch'].map((verb) => [verb, 'PATCH'])),
  },
};

const snakeCase = (text: string): string =>
  text
    .replaceAll(/(?<=[a-z0-9])(?=[A-Z])/g, '_')
    .replaceAll('-', '_')
    .toLowerCase();

/** The method that an action repeats, if it repeats one. */
function methodFor(action: string, category: string, kind: 'collection' | 'object'): string | undefined {
  const name = snakeCase(action);
  const object = snakeCase(category);
  const names = [object, object.replace(/s$/, ''), object.replace(/ies$/, 'y')];
  const verb = names.reduce((rest, noun) => (rest.endsWith(`_${noun}`) ? rest.slice(0, -noun.length - 1) : rest), name);
  return Object.hasOwn(verbs[kind], verb) ? verbs[kind][verb] : undefined;
}

const actionNeeded: Rule = {
  id: 'action-needed',
  title: 'An action is not the name of what a method does.',
  clauses: [clauses.actions],
  doc: 'An object is shown by GET, changed by PATCH and deleted by DELETE; a collection is listed by GET and gets an object by POST or PUT (`create` may be an action). `search`, `rename` and the like are actions, and so is `update` where the object has PATCH besides.',
  good: ok({ path: '/api/v1/tables/{table}/rename', method: 'post', parameters: ['table'] }),
  bad: ok({ path: '/api/v1/tables/{table}/delete', method: 'post', parameters: ['table'] }),
  check: ({ pathItems }) =>
    pathItems.flatMap((item) => {
      const { segments } = partsOf(item);
      const last = segments.at(-1);
      const before = segments.at(-2);
      if (
        !last ||
        !before ||
        last.isParameter ||
        last.kind === 'callable' ||
        (last.kind === 'category' && isPlural(last.text))
      )
        return [];
      const kind = before.kind === 'category' ? 'collection' : 'object';
      const category = kind === 'collection' ? before : segments.at(-3);
      const method = methodFor(last.text, category?.text ?? '', kind);
      if (method === undefined) return [];
      const place = item.fullPath.slice(0, item.fullPath.lastIndexOf('/'));
      // Where PATCH changes the object itself, an update of another kind, such as of its rows, is an action.
      const isServed = pathItems.some(({ fullPath, methods }) => fullPath === place && methods.includes('patch'));
      if (method === 'PATCH' && isServed) return [];
      return [{ message: `"${last.text}" is not needed: use ${method} ${place}`, at: item.at }];
    }),
};

export const pathRules: readonly Rule[] = [pathForm, pathOrder, categoryCase, categoryPlural, actionNeeded];
