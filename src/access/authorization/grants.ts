// Grants as they are written: into the store with their line in the audit trail, then into the directory.

import type { Actor, Basis } from '../../model/principal.ts';
import type { Privilege } from '../../model/privileges.ts';
import { requireBasis } from '../../standard/basis.ts';
import type { Store } from '../../store/store.ts';
import type { Trail } from '../audit/audit_log.ts';
import { type Directory, grantOf } from './directory.ts';
import type { Grant } from './directory_types.ts';
import { objectIdsOf } from './grant_scopes.ts';

export interface GrantsOptions {
  readonly store: Store;
  readonly directory: Directory;
  readonly trail: Trail;
  readonly clock?: () => number;
}

/** What a grant is called in its grantee: the same for the same privilege on the same thing. */
export function grantIdOf(privilege: Privilege, path: readonly string[]): string {
  const on = path.at(-1) as string;
  return `${privilege}-${on === '/' ? 'everything' : on.replace(/^\//, 'all-')}`;
}

/** A grant never changes; one that was revoked and made again is another. */
export const basisOfGrant = ({ granteeId, grantId, createdAt }: Grant): Basis => ({
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

  /** `path`: ids from the root to what it is on. Undefined where the grantee or the object is gone meanwhile. */
  async create(
    granteeId: string,
    privilege: Privilege,
    path: readonly string[],
    actor: Actor,
  ): Promise<{ readonly grant: Grant; readonly created: boolean } | undefined> {
    const { store, directory, trail } = this.#options;
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
    const outcome = await store.transaction(async (tx) => {
      const needed = [granteeId, ...objectIds];
      const there = await tx.selectFrom('objects').select('id').where('id', 'in', needed).execute();
      if (there.length < new Set(needed).size) return undefined;
      const known = await tx
        .selectFrom('grants')
        .selectAll()
        .where('grantee_id', '=', granteeId)
        .where('grant_id', '=', row.grant_id)
        .executeTakeFirst();
      if (known) return { grant: grantOf(known), created: false };
      await tx.insertInto('grants').values(row).execute();
      const details = { grantId: row.grant_id, granteeId, privilege, on: row.on_id };
      await trail.append(tx, actor, { outcome: '0', objectId: granteeId, details });
      return { grant: grantOf(row), created: true };
    });
    if (outcome?.created) directory.grantAdded(outcome.grant);
    return outcome;
  }

  /** False where it was gone already. */
  async remove({ granteeId, grantId }: Grant, actor: Actor): Promise<boolean> {
    const { store, directory, trail } = this.#options;
    const was = await store.transaction(async (tx) => {
      const gone = await tx
        .deleteFrom('grants')
        .where('grantee_id', '=', granteeId)
        .where('grant_id', '=', grantId)
        .returningAll()
        .executeTakeFirst();
      if (!gone) return false;
      requireBasis(basisOfGrant(grantOf(gone)), actor);
      await trail.append(tx, actor, { outcome: '0', objectId: granteeId, details: { grantId } });
      return true;
    });
    directory.grantRemoved(granteeId, grantId);
    return was;
  }
}
