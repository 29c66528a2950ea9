// Creates and removes grants, together with the audit event. The directory follows the changes.

import type { Actor, ObjectVersion } from '../../model/principal.ts';
import type { Privilege } from '../../model/privileges.ts';
import { requireExpectedVersion } from '../../standard/expected_version.ts';
import type { ChangeFeed } from '../../store/changes/change_feed.ts';
import type { Store } from '../../store/store.ts';
import { afterCommit } from '../../store/transactions.ts';
import type { Trail } from '../audit/audit_log.ts';
import { type Grant, grantOf } from './directory_types.ts';
import { objectIdsOf } from './grant_scopes.ts';

export interface GrantsOptions {
  readonly store: Store;
  readonly changes: Pick<ChangeFeed, 'append'>;
  readonly trail: Trail;
  readonly clock?: () => number;
}

/** The id of a grant, unique for its grantee: the same for the same privilege on the same object. */
export function grantIdOf(privilege: Privilege, path: readonly string[]): string {
  const onId = path.at(-1) as string;
  return `${privilege}-${onId === '/' ? 'everything' : onId.replace(/^\//, 'all-')}`;
}

/** A grant never changes; one that was revoked and created again is another grant. */
export const versionOfGrant = ({ granteeId, grantId, createdAt }: Grant): ObjectVersion => ({
  objectId: `${granteeId}/${grantId}/${createdAt}`,
  category: 'grants',
  name: grantId,
  version: 1,
});

export class Grants {
  readonly #options: GrantsOptions;
  readonly #clock: () => number;

  constructor(options: GrantsOptions) {
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
  }

  /** `path`: ids from the root to the object. Returns undefined if the grantee or an object of the path no longer exists. */
  async create(
    granteeId: string,
    privilege: Privilege,
    path: readonly string[],
    actor: Actor,
  ): Promise<{ readonly grant: Grant; readonly created: boolean } | undefined> {
    const { store, changes, trail } = this.#options;
    const objectIds = objectIdsOf(path);
    const row = {
      grant_id: grantIdOf(privilege, path),
      grantee_id: granteeId,
      privilege,
      on_id: path.at(-1) as string,
      object_id: objectIds.at(-1) ?? null,
      path: JSON.stringify(path),
      created_at: this.#clock(),
      created_by: actor.name,
    };
    return store.transaction(async (tx) => {
      const requiredIds = [granteeId, ...objectIds];
      const found = await tx.selectFrom('objects').select('id').where('id', 'in', requiredIds).execute();
      if (found.length < new Set(requiredIds).size) return undefined;
      const existing = await tx
        .selectFrom('grants')
        .selectAll()
        .where('grantee_id', '=', granteeId)
        .where('grant_id', '=', row.grant_id)
        .executeTakeFirst();
      if (existing) return { grant: grantOf(existing), created: false };
      await tx.insertInto('grants').values(row).execute();
      const details = { grantId: row.grant_id, granteeId, privilege, on: row.on_id };
      await trail.append(tx, actor, { outcome: '0', objectId: granteeId, details });
      changes.append(tx, { kind: 'grant', granteeId, grantId: row.grant_id, grant: row });
      return { grant: grantOf(row), created: true };
    });
  }

  /** Returns false if the grant no longer exists. */
  async remove({ granteeId, grantId }: Grant, actor: Actor): Promise<boolean> {
    const { store, changes, trail } = this.#options;
    return store.transaction(async (tx) => {
      const row = await tx
        .deleteFrom('grants')
        .where('grantee_id', '=', granteeId)
        .where('grant_id', '=', grantId)
        .returningAll()
        .executeTakeFirst();
      if (!row) return false;
      requireExpectedVersion(versionOfGrant(grantOf(row)), actor, (effect) => afterCommit(tx, effect));
      await trail.append(tx, actor, { outcome: '0', objectId: granteeId, details: { grantId } });
      changes.append(tx, { kind: 'grant', granteeId, grantId, grant: undefined });
      return true;
    });
  }
}
