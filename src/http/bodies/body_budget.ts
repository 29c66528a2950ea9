// How many bytes of large bodies are held at once, by all callers and by one: what is over is refused before it is read.
import { Failure } from '../../standard/failure.ts';

export class BodyBudget {
  readonly #bytesMax: number;
  #bytes = 0;
  readonly #perPrincipal = new Map<string, number>();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Throws SERVER_BUSY; otherwise gives back what was taken, by a function that is called once. One body is always let in. */
  take(principalId: string, bytes: number): () => void {
    const own = this.#perPrincipal.get(principalId) ?? 0;
    // A principal alone has no more than half, so that others are let in.
    if (this.#bytes > 0 && (this.#bytes + bytes > this.#bytesMax || (own > 0 && own + bytes > this.#bytesMax / 2)))
      throw new Failure('SERVER_BUSY', 'as many large bodies are read now as the server has room for');
    this.#bytes += bytes;
    this.#perPrincipal.set(principalId, own + bytes);
    return () => {
      this.#bytes -= bytes;
      const left = (this.#perPrincipal.get(principalId) ?? 0) - bytes;
      if (left > 0) this.#perPrincipal.set(principalId, left);
      else this.#perPrincipal.delete(principalId);
    };
  }
}
