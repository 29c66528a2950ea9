// The text of a query and where it runs, as drafts and saved queries have it: how a body changes it, how it is shown, and its versions.
import type { Transaction } from 'kysely';
import { queryChange } from '../../api/saved_queries/query_fields.ts';
import { versionsMax } from '../../api/saved_queries/versions.ts';
import { addVersion, type CountedObjects, trimVersions } from '../../catalog/object_versions.ts';
import type { QueryContent } from '../../model/saved_queries.ts';
import { Failure } from '../../standard/failure.ts';
import { mergePatch } from '../../standard/schema/merge_patch.ts';
import type { Static } from '../../standard/type.ts';
import { Type } from '../../standard/type.ts';
import type { Schema } from '../../store/schema.ts';
import { defined } from '../records/fields.ts';
import type { Context } from '../records/handler_context.ts';

const Change = Type.Object(queryChange);
type Fields = Static<typeof Change>;
export type QueryChange = { readonly [K in keyof Fields]?: Fields[K] | undefined };

export function changedQuery(before: QueryContent, { sql, parameters, catalog, database }: QueryChange) {
  const content = { sql: before.sql, ...defined(optionalOf(before)) };
  return mergePatch<QueryContent>(Change, content, { sql, parameters, catalog, database });
}

const optionalOf = ({ parameters, catalog, database }: QueryContent) => ({ parameters, catalog, database });

export const shownQuery = ({ sql, parameters, catalog, database }: QueryContent) => ({
  sql,
  parameters: parameters ?? null,
  catalog: catalog ?? null,
  database: database ?? null,
});

/** Stores the contents of an object as its version. */
export const saveVersion = (
  tx: Transaction<Schema>,
  { id, version }: { readonly id: string; readonly version: number },
  content: object,
  { call }: Context,
): Promise<void> =>
  addVersion(tx, { objectId: id, version, content, savedAt: Date.now(), savedBy: call.actor.name, versionsMax });

const quotaCodes = { drafts: 'DRAFT_QUOTA_EXCEEDED', saved_queries: 'SAVED_QUERY_QUOTA_EXCEEDED' } as const;

/**
 * Of the drafts of a user, or the saved queries of an owner. Call it in the transaction of the change, after it. `before` and `after`: the contents of the
 * object; without `before`, it is a further one. Whoever has more than the limits, because of lower ones before, can still make them less. Throws their code.
 */
export async function requireQuota(
  tx: Transaction<Schema>,
  objects: CountedObjects & { readonly category: keyof typeof quotaCodes },
  { before, after }: { readonly before?: object | undefined; readonly after: object },
  { draftLimits }: Context,
): Promise<void> {
  const { principalDraftsMax, principalDraftBytesMax } = draftLimits;
  const { count, bytes } = await trimVersions(tx, objects, principalDraftBytesMax);
  const limits = { principalDraftsMax, principalDraftBytesMax };
  const code = quotaCodes[objects.category];
  const what = objects.category.replaceAll('_', ' ');
  if (before === undefined && count > principalDraftsMax)
    throw new Failure(code, `a user can have at most ${principalDraftsMax} ${what}`, limits);
  const isLarger = before === undefined || JSON.stringify(after).length > JSON.stringify(before).length;
  if (bytes <= principalDraftBytesMax || !isLarger) return;
  const message = `the ${what} of a user can have at most ${principalDraftBytesMax} bytes in total`;
  throw new Failure(code, message, limits);
}
