// Limits the bytes of large bodies in memory, in total and per principal. A body over the limit is refused before it is read.
import { Failure } from '../../standard/failure.ts';

export class BodyBudget {
  readonly #bytesMax: number;
  #bytes = 0;
  readonly #perPrincipal = new Map<string, number>();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Reserves bytes and returns a function that releases them, to be called once. A single body is always admitted. Throws SERVER_BUSY. */
  take(principalId: string, bytes: number): () => void {
    const own = this.#perPrincipal.get(principalId) ?? 0;
    // One principal may use at most half of the budget, so that others are admitted.
    if (this.#bytes > 0 && (this.#bytes + bytes > this.#bytesMax || (own > 0 && own + bytes > this.#bytesMax / 2)))
      throw new Failure('SERVER_BUSY', 'the memory for large request bodies is in use; retry later');
    this.#bytes += bytes;
    this.#perPrincipal.set(principalId, own + bytes);
    return () => {
      this.#bytes -= bytes;
      const remaining = (this.#perPrincipal.get(principalId) ?? 0) - bytes;
      if (remaining > 0) this.#perPrincipal.set(principalId, remaining);
      else this.#perPrincipal.delete(principalId);
    };
  }
}
