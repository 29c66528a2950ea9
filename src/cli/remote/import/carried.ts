// Which objects of a source can be carried over by their names: names are compared without case on the server, and have limits.
import type { NotCarried, SourceDatabase, SourceTable } from '../../../model/import_source.ts';
import { foldName, nameFault } from '../../../model/names.ts';

export function carriedOver({ tables, views, notCarried }: SourceDatabase): SourceDatabase {
  const found: NotCarried[] = [];
  const seen = new Map<string, string>();
  const isCarried = (kind: string, name: string, fault: string | undefined): boolean => {
    const same = seen.get(foldName(name));
    const reason = nameFault(name) ?? fault ?? (same && `its name is that of ${same} without case`);
    if (reason === undefined) seen.set(foldName(name), name);
    else found.push({ object: name, kind, text: `is not copied: ${reason}` });
    return reason === undefined;
  };
  return {
    tables: tables.filter((table) => isCarried('table', table.name, columnsFault(table))),
    views: views.filter(({ name }) => isCarried('view', name, undefined)),
    notCarried: [...notCarried, ...found],
  };
}

function columnsFault({ columns }: SourceTable): string | undefined {
  if (columns.length === 0) return 'it has no columns';
  const seen = new Set<string>();
  for (const { name } of columns) {
    const fault = nameFault(name);
    if (fault !== undefined) return `its column ${JSON.stringify(name)}: ${fault}`;
    if (seen.has(foldName(name))) return `two of its columns are named ${name} without case`;
    seen.add(foldName(name));
  }
  return undefined;
}
