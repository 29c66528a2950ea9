// Converts errors of the engine process for the server: locates them in the caller's text and serializes them.
import type { Code, RequestOutcome } from '../../../standard/codes.ts';
import { Failure } from '../../../standard/failure.ts';
import { StaleAnalysis } from '../../port/statements.ts';
import { engineFailure, FatalEngineError, failureOf } from '../instance/sql_errors.ts';
import { withoutCatalogs } from '../sql/missing_functions.ts';

export type WireError =
  | {
      readonly kind: 'failure';
      readonly code: Code;
      readonly message: string;
      /** JSON text, so that numbers keep their digits. */
      readonly result: string;
      readonly retryAfterSeconds?: number | undefined;
      readonly outcome?: RequestOutcome | undefined;
    }
  | { readonly kind: 'stale' }
  /** The engine is in an undefined state after a fatal error: the process is replaced. */
  | { readonly kind: 'fatal'; readonly message: string }
  | { readonly kind: 'error'; readonly message: string; readonly stack?: string | undefined };

/** `linesAbove`: how many generated lines precede the caller's text. */
export async function locateErrors<T>(sql: string, linesAbove: number, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw withoutCatalogs(failureOf(error, { sql, linesAbove }), sql);
  }
}

export function faultOf(thrown: unknown): WireError {
  const error =
    thrown instanceof Error && !(thrown instanceof Failure) ? (engineFailure(thrown.message) ?? thrown) : thrown;
  if (error instanceof StaleAnalysis) return { kind: 'stale' };
  if (error instanceof FatalEngineError) return { kind: 'fatal', message: error.message };
  if (error instanceof Failure) {
    const { code, message, result, retryAfterSeconds, outcome } = error;
    return { kind: 'failure', code, message, result: JSON.stringify(result), retryAfterSeconds, outcome };
  }
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  return { kind: 'error', message, stack };
}
