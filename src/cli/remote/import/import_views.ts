// Creates the views of a source, in rounds, because a view may read others. What the server does not accept is listed.
import { TabulariumError } from '../../../client/errors.ts';
import type { SourceView } from '../../../model/import_source.ts';
import type { TableImport } from './import_table.ts';

export interface ViewOutcome {
  readonly name: string;
  readonly state: 'created' | 'present' | 'refused';
  readonly reason?: string;
}

export async function importViews(
  views: readonly SourceView[],
  { database, signal }: Pick<TableImport, 'database' | 'signal'>,
): Promise<readonly ViewOutcome[]> {
  const outcomes = new Map<string, ViewOutcome>();
  for (let open = views, before = Number.POSITIVE_INFINITY; open.length > 0 && open.length < before; ) {
    before = open.length;
    for (const view of open) outcomes.set(view.name, await importView(view, { database, signal }));
    open = open.filter(({ name }) => outcomes.get(name)?.state === 'refused');
  }
  return [...outcomes.values()];
}

async function importView(
  { name, sql, comment }: SourceView,
  { database, signal }: Pick<TableImport, 'database' | 'signal'>,
): Promise<ViewOutcome> {
  try {
    await database.views.create({ name, sql, ...(comment === undefined ? {} : { comment }) }, { signal });
    return { name, state: 'created' };
  } catch (error) {
    if (!(error instanceof TabulariumError) || error.status === 0 || error.status >= 500) throw error;
    if (error.code === 'OBJECT_ALREADY_EXISTS') return { name, state: 'present' };
    return { name, state: 'refused', reason: `${error.code}: ${error.message}` };
  }
}
