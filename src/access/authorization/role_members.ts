// The members of roles.
import type { Transaction } from 'kysely';
import type { ChangeFeed } from '../../store/changes/change_feed.ts';
import type { Schema } from '../../store/schema.ts';

const rowsPerStatementMax = 1000;

export class RoleMembers {
  readonly #changes: Pick<ChangeFeed, 'append'>;

  constructor(changes: Pick<ChangeFeed, 'append'>) {
    this.#changes = changes;
  }

  /** Replaces all members, in the transaction that changes the role. */
  async write(tx: Transaction<Schema>, roleId: string, members: ReadonlySet<string>): Promise<void> {
    const userIds = [...members];
    await tx.deleteFrom('role_members').where('role_id', '=', roleId).execute();
    for (let start = 0; start < userIds.length; start += rowsPerStatementMax)
      await tx
        .insertInto('role_members')
        .values(userIds.slice(start, start + rowsPerStatementMax).map((user_id) => ({ role_id: roleId, user_id })))
        .execute();
    this.#changes.append(tx, { kind: 'members', roleId, userIds });
  }
}
