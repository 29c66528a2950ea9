// What a target contains where none of its backups is the requested one: a bounded text for the message.
import type { Manifest } from './manifest.ts';

const namesMax = 5;

/** `found`: of the backups that the reader of the text may know of (`describeBackup`), newest first. */
export function otherBackups(found: ReadonlySet<string>): string {
  return found.size === 0
    ? 'the backup does not exist in this target'
    : `it has backups of ${list(bounded([...found]))}`;
}

export function describeBackup({ of, databases }: Manifest): string {
  if (of.category === 'databases') return `the database ${JSON.stringify(of.name)}`;
  const names = bounded(databases.map(({ name }) => JSON.stringify(name)));
  return `the catalog ${JSON.stringify(of.name)}${names.length === 0 ? '' : ` (databases: ${names.join(', ')})`}`;
}

function bounded(names: readonly string[]): readonly string[] {
  return names.length <= namesMax ? names : [...names.slice(0, namesMax), `${names.length - namesMax} more`];
}

const list = (texts: readonly string[]): string =>
  [texts.slice(0, -1).join(', '), texts.at(-1)].filter((part) => part !== '').join(' and ');
