// The signals that end a command: what runs on the server for it is cancelled first.
import { constants } from 'node:os';

/** How long a command that was stopped has to cancel its work on the server, in milliseconds. */
const graceMs = 30_000;
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export interface Stopping {
  readonly signal: AbortSignal;
  /** The exit code of a command that was stopped; undefined if it was not. */
  exitCode(): number | undefined;
  /** Stops the command for another reason than a signal. */
  stop(exitCode: number): void;
  /** Handles signals no longer. */
  end(): void;
}

export function stopOnSignals(): Stopping {
  const controller = new AbortController();
  let code: number | undefined;
  const stop = (exitCode: number) => {
    if (code !== undefined) return;
    code = exitCode;
    setTimeout(() => process.exit(exitCode), graceMs).unref();
    controller.abort();
  };
  const onSignal = (signal: NodeJS.Signals) => {
    const exitCode = 128 + constants.signals[signal];
    // A second Ctrl-C does not wait for the server.
    if (code === exitCode) process.exit(exitCode);
    stop(exitCode);
  };
  for (const signal of signals) process.on(signal, onSignal);
  return {
    signal: controller.signal,
    exitCode: () => code,
    stop,
    end() {
      for (const signal of signals) process.off(signal, onSignal);
    },
  };
}
