// Errors on their way from the engine process to the server: given their place in the caller's text, and put into messages.
import { Failure } from '../../../standard/failure.ts';
import { StaleAnalysis } from '../../engine.ts';
import { engineFailure, FatalEngineError, failureOf } from '../instance/sql_errors.ts';
import type { WireError } from './protocol.ts';

/** `above`: how many lines of ours stand above the caller's text. */
export async function locateErrors<T>(sql: string, above: number, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw failureOf(error, { sql, linesAbove: above });
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
