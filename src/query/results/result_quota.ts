// The quota of the stored rows of one principal, counted in the store for all servers (result_sources). Rows in files count towards the
// quota of files.
import type { Kysely } from 'kysely';
import { Failure } from '../../standard/failure.ts';
import type { Schema } from '../../store/schema.ts';

export interface ResultQuotaSettings {
  /** 0: no limit. */
  readonly principalResultBytesMax: number;
}

export class ResultQuota {
  readonly #db: Kysely<Schema>;
  readonly #bytesMax: number;

  constructor(db: Kysely<Schema>, { principalResultBytesMax }: ResultQuotaSettings) {
    this.#db = db;
    this.#bytesMax = principalResultBytesMax;
  }

  /** Throws RESULT_QUOTA_EXCEEDED if no result could be stored. */
  async requireAny(principalId: string): Promise<void> {
    if (this.#bytesMax > 0) this.#require(await storedBytes(this.#db, principalId), 1);
  }

  /**
   * For a result that grows while others may be stored: reads once what is stored. The returned function throws RESULT_QUOTA_EXCEEDED if
   * a result of this size could not be stored.
   */
  ofGrowing(principalId: string): (bytes: number) => Promise<void> {
    let stored: Promise<number> | undefined;
    return async (bytes) => {
      if (this.#bytesMax === 0) return;
      stored ??= storedBytes(this.#db, principalId);
      this.#require(await stored, bytes);
    };
  }

  /** Call it in the transaction that records the result. Throws RESULT_QUOTA_EXCEEDED. */
  async require(tx: Kysely<Schema>, principalId: string, taskId: string, bytes: number): Promise<void> {
    if (this.#bytesMax > 0) this.#require(await storedBytes(tx, principalId, taskId), bytes);
  }

  #require(stored: number, resultBytes: number): void {
    const principalResultBytesMax = this.#bytesMax;
    if (stored + resultBytes <= principalResultBytesMax) return;
    const message = `the stored results of this principal would exceed ${principalResultBytesMax} bytes; delete tasks that have results`;
    throw new Failure('RESULT_QUOTA_EXCEEDED', message, { principalResultBytesMax, storedBytes: stored, resultBytes });
  }
}

/** Without the result of the task itself. */
async function storedBytes(db: Kysely<Schema>, principalId: string, taskId = ''): Promise<number> {
  const { bytes } = await db
    .selectFrom('result_sources')
    .select((e) => e.fn.sum<number | string | null>('bytes').as('bytes'))
    .where('owner', '=', principalId)
    .where('task_id', '<>', taskId)
    .executeTakeFirstOrThrow();
  return Number(bytes ?? 0);
}
