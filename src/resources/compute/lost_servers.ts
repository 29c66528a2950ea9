// Removes a server that is lost for good: with it end its tasks, files and statements and, with consent, its warehouses and all that they
// contained. One transaction, which also records where the server's chain of the audit trail ends.
import type { Trail } from '../../access/audit/audit_log.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { Actor } from '../../model/principal.ts';
import { Failure } from '../../standard/failure.ts';
import type { Servers } from '../../store/servers.ts';
import type { Store } from '../../store/store.ts';
import type { Tasks } from '../../tasks/tasks.ts';

interface LostServersParts {
  readonly store: Store;
  readonly servers: Pick<Servers, 'remove' | 'read'>;
  readonly catalog: Pick<Catalog, 'removeLostWarehouses'>;
  readonly tasks: Pick<Tasks, 'abandon'>;
  readonly trail: Pick<Trail, 'append'>;
}

export class LostServers {
  readonly #parts: LostServersParts;

  constructor(parts: LostServersParts) {
    this.#parts = parts;
  }

  /**
   * `cascade`: with its warehouses; without it, a server that has any is refused.
   * @returns false if there is no such server. Throws SERVER_AVAILABLE, NOT_EMPTY.
   */
  async remove(id: string, { cascade, actor }: { readonly cascade: boolean; readonly actor: Actor }): Promise<boolean> {
    const { store, servers, catalog, tasks, trail } = this.#parts;
    const wasThere = await store.transaction(async (tx) => {
      // First: a server that starts again meanwhile waits, and is a new one.
      if (!(await servers.remove(tx, id))) return false;
      const removed = await catalog.removeLostWarehouses(tx, id);
      if (removed.warehouses.length > 0 && !cascade) throw stillHas(removed.warehouses);
      const abandoned = await tasks.abandon(tx, id);
      const files = await tx.deleteFrom('files').where('server_id', '=', id).executeTakeFirst();
      await tx.deleteFrom('running_queries').where('server_id', '=', id).execute();
      const chain = await tx
        .selectFrom('audit_chains')
        .select(['last_sequence', 'last_digest'])
        .where('server_id', '=', id)
        .executeTakeFirst();
      const counts = { tasks: abandoned, files: Number(files.numDeletedRows) };
      const lastEvent = chain ? { sequence: chain.last_sequence, digest: chain.last_digest } : null;
      await trail.append(tx, actor, { outcome: '0', objectId: id, details: { ...removed, ...counts, lastEvent } });
      return true;
    });
    await servers.read();
    return wasThere;
  }
}

function stillHas(warehouses: readonly string[]): Failure {
  const message = 'the server has the data of warehouses, which are lost with it';
  return new Failure('NOT_EMPTY', message, { category: 'warehouses', warehouses });
}
