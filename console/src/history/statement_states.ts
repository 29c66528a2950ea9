// What the states of statements are in the interface.
import type { Client } from '../../../src/client/index.ts';
import type { Tone } from '../ui/feedback.tsx';

export type QueryRecord = Awaited<ReturnType<ReturnType<Client['queries']>['get']>>;
export type StatementState = QueryRecord['state'];

export const stateLabels: Readonly<Record<StatementState, string>> = {
  queued: 'Queued',
  running: 'Running',
  succeeded: 'Succeeded',
  failed: 'Failed',
  cancelled: 'Cancelled',
};

export const stateTones: Readonly<Record<StatementState, Tone>> = {
  queued: 'warning',
  running: 'accent',
  succeeded: 'success',
  failed: 'danger',
  cancelled: 'neutral',
};
