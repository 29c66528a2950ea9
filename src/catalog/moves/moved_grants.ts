// Grants on a catalog that gets another id, and on objects in it: their paths, and the id of those on the catalog itself.
import type { CatalogContext, Tx } from '../changes/change_context.ts';

export async function moveGrants(context: CatalogContext, tx: Tx, from: string, to: string): Promise<void> {
  const rows = await tx.selectFrom('grants').selectAll().where('path', 'like', `%"${from}"%`).execute();
  for (const row of rows) {
    const path = (JSON.parse(row.path) as string[]).map((id) => (id === from ? to : id));
    const isOnCatalog = row.on_id === from;
    const moved = {
      ...row,
      path: JSON.stringify(path),
      ...(isOnCatalog ? { on_id: to, object_id: to, grant_id: row.grant_id.replace(from, to) } : {}),
    };
    const { grantee_id: granteeId, grant_id: grantId } = row;
    await tx
      .updateTable('grants')
      .set(moved)
      .where('grantee_id', '=', granteeId)
      .where('grant_id', '=', grantId)
      .execute();
    if (isOnCatalog) context.changes.append(tx, { kind: 'grant', granteeId, grantId, grant: undefined });
    context.changes.append(tx, { kind: 'grant', granteeId, grantId: moved.grant_id, grant: moved });
  }
}
