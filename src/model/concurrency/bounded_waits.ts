// Waits for work that is done elsewhere, at most for a time or until a signal is aborted. The end of a wait does not end the work, and what the
// work throws later is ignored.

/** The value, or undefined if it does not come within `ms`. Unless `ref`, the wait does not keep the process alive. */
export async function withTimeout<T>(work: Promise<T>, ms: number, { ref = true } = {}): Promise<T | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(resolve, ms, undefined);
  if (!ref) timer.unref();
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The value. Throws the `reason`, which is that of the signal unless given, if the signal is aborted before. */
export async function unlessAborted<T>(
  work: Promise<T>,
  signal: AbortSignal,
  reason = (): unknown => signal.reason,
): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(reason());
  signal.addEventListener('abort', abort, { once: true });
  try {
    if (signal.aborted) abort();
    return await Promise.race([aborted, work]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
