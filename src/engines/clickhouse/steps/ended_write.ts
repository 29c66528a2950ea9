// The end of a write that servers refuse, or have stopped, where others may have done their part of it: nobody completes it any more unasked.
import type { Failure } from '../../../standard/failure.ts';
import type { CatalogRef } from '../../port/refs.ts';
import type { InsertStep } from '../../port/rows.ts';
import type { WarehouseContext } from '../context.ts';

interface WriteEndedOptions {
  /** `failed`: a repetition of the step fails with the same error. `refused`: a repetition tries again, which is idempotent. */
  readonly state: 'failed' | 'refused';
  readonly batch: string;
  /** What ends the rest of the work on the servers; called when it is recorded that nobody is to begin it again. */
  readonly stop?: () => Promise<unknown>;
}

export class WriteEnded extends Error {
  override name = 'WriteEnded';
  /** For the caller. Its outcome is `unknown` where a part of the write may be done. */
  readonly failure: Failure;
  readonly options: WriteEndedOptions;

  constructor(failure: Failure, options: WriteEndedOptions) {
    super(failure.message, { cause: failure.cause });
    this.failure = failure;
    this.options = options;
  }
}

/** Records that the write has ended, then stops it. What cannot be recorded is not stopped: whoever finds it next ends it. */
export async function endWrite(
  { steps }: WarehouseContext,
  catalog: CatalogRef,
  recorded: { readonly steps: readonly InsertStep[]; readonly attempt?: string | undefined },
  { failure, options: { state, batch, stop } }: WriteEnded,
): Promise<void> {
  const { attempt } = recorded;
  const payload = state === 'failed' ? JSON.stringify({ code: failure.code, message: failure.message }) : '';
  try {
    await steps.record(
      catalog,
      recorded.steps.map(({ step, rowCount }) => ({ step, rowCount, state, batch, payload, attempt })),
    );
    await stop?.();
  } catch {
    // A server is not available: it is pending still, or ends there when it is found again.
  }
}
