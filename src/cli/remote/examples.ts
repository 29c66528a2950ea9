// An example of each command, from the example of its declaration.
import type { DeclaredCategory, DeclaredEndpoint } from '../../api/declare.ts';
import { snakeCase } from '../../standard/camel_case.ts';
import { isPaged, nameFieldOf } from '../../standard/endpoint.ts';

/** The word on the command line of a category or an operation. */
export const commandName = (name: string): string => snakeCase(name).replaceAll('_', '-');
const isPlain = /^[\w./:@%+=-]+$/;

/** As a shell reads it. */
export const shellWord = (text: string): string => (isPlain.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

function parents(category: DeclaredCategory): readonly DeclaredCategory[] {
  return category.parent ? [...parents(category.parent), category.parent] : [];
}

/** One line, which the command line accepts. */
export function exampleLine(category: DeclaredCategory, operation: string): string {
  const endpoint = category.endpoints[operation] as DeclaredEndpoint;
  const body = (endpoint.example?.body ?? {}) as Readonly<Record<string, unknown>>;
  const nameField = nameFieldOf(endpoint);
  const words = ['tabularium', commandName(category.name), commandName(operation)];
  const isCreate = endpoint.verb === 'create' && endpoint.named !== false;
  if (endpoint.on === 'object') words.push(shellWord(String(category.example[category.idField ?? 'name'])));
  else if (isCreate && body[nameField] !== undefined) words.push(shellWord(String(body[nameField])));
  for (const parent of parents(category))
    if (parentDefaultOf(category, parent) === undefined)
      words.push(
        `--${parent.singular.replaceAll('_', '-')}`,
        shellWord(String(parent.example[parent.idField ?? 'name'])),
      );
  const fields = Object.entries(body).filter(([name]) => !(isCreate && name === nameField) && name !== 'pageToken');
  if (fields.length > 0) words.push('--body', shellWord(JSON.stringify(Object.fromEntries(fields))));
  if (isPaged(endpoint)) words.push('--limit', '10');
  return words.join(' ');
}

/** The parent that a path may leave out. */
function parentDefaultOf(category: DeclaredCategory, parent: DeclaredCategory): string | undefined {
  const chain = [...parents(category), category];
  return chain.find((each) => each.parent?.name === parent.name)?.parentDefault;
}
