// Sealed secrets of a backup or restore task, stored until it has ended: the credentials of its object store, and the backup that a
// restore has chosen, so that every attempt uses the same one.
import type { Transaction } from 'kysely';
import type { Secrets } from '../../access/secrets/secrets.ts';
import type { ObjectStoreCredentials } from '../../outbound/object_store.ts';
import type { Schema } from '../../store/schema.ts';
import type { Store } from '../../store/store.ts';

export interface TargetSecret {
  readonly credentials?: ObjectStoreCredentials | undefined;
  readonly chosen?: { readonly backupId: string; readonly digest: string } | undefined;
}

export class TargetSecrets {
  readonly #store: Store;
  readonly #secrets: Pick<Secrets, 'put' | 'get' | 'remove'>;
  readonly #prefix: string;

  /** `prefix`: prefix of the names of these secrets; ends with a blank. */
  constructor(store: Store, secrets: Pick<Secrets, 'put' | 'get' | 'remove'>, prefix: string) {
    this.#store = store;
    this.#secrets = secrets;
    this.#prefix = prefix;
  }

  put(taskId: string, secret: TargetSecret, tx?: Transaction<Schema>): Promise<void> {
    return this.#secrets.put(this.#prefix + taskId, JSON.stringify(secret), tx);
  }

  async get(taskId: string): Promise<TargetSecret | undefined> {
    const secret = await this.#secrets.get(this.#prefix + taskId);
    return secret === undefined ? undefined : (JSON.parse(secret) as TargetSecret);
  }

  remove(taskId: string, tx?: Transaction<Schema>): Promise<void> {
    return this.#secrets.remove(this.#prefix + taskId, tx);
  }

  async taskIds(): Promise<string[]> {
    const rows = await this.#store.db
      .selectFrom('secrets')
      .select('name')
      .where('name', '>=', this.#prefix)
      .where('name', '<', `${this.#prefix}~`)
      .execute();
    return rows.map(({ name }) => name.slice(this.#prefix.length));
  }
}
