// Warehouses as the room shows and edits them: their states, and the limits of a form.
import type { Client } from '../../../src/client/index.ts';
import type { Tone } from '../ui/feedback.tsx';

type Warehouses = Client['warehouses'];
type Warehouse = ReturnType<Warehouses>;
export type WarehouseRecord = Awaited<ReturnType<Warehouse['get']>>;
export type BackendRecord = Awaited<ReturnType<ReturnType<Warehouse['backends']>['get']>>;
export type WarehouseState = WarehouseRecord['state'];
type WarehouseChange = Parameters<Warehouse['update']>[0];

export const stateLabels: Readonly<Record<WarehouseState, string>> = {
  running: 'Running',
  starting: 'Starting',
  suspended: 'Suspended',
  failed: 'Failed',
};

export const stateTones: Readonly<Record<WarehouseState, Tone>> = {
  running: 'success',
  starting: 'accent',
  suspended: 'neutral',
  failed: 'danger',
};

const mebibyte = 1024 * 1024;

interface Limit {
  readonly field:
    | 'threads'
    | 'memoryLimitBytes'
    | 'spillLimitBytes'
    | 'autoSuspendSeconds'
    | 'queriesMax'
    | 'queueMax'
    | 'statementTimeoutSeconds';
  readonly label: string;
  readonly description: string;
  /** How many of the field's units one unit of the form is. */
  readonly factor: number;
  /** Of processes that this server starts; the servers of a cluster have settings of their own. */
  readonly isOfOwnProcesses?: true;
}

export const limits: readonly Limit[] = [
  {
    field: 'memoryLimitBytes',
    label: 'Memory (MiB)',
    description: 'That all its statements may use together.',
    factor: mebibyte,
    isOfOwnProcesses: true,
  },
  {
    field: 'spillLimitBytes',
    label: 'Temporary disk (MiB)',
    description: 'For what does not fit into memory.',
    factor: mebibyte,
    isOfOwnProcesses: true,
  },
  {
    field: 'threads',
    label: 'Threads',
    description: 'That its statements share.',
    factor: 1,
    isOfOwnProcesses: true,
  },
  { field: 'queriesMax', label: 'Statements at a time', description: 'Others wait in the queue.', factor: 1 },
  { field: 'queueMax', label: 'Queue length', description: 'Further statements are refused.', factor: 1 },
  {
    field: 'statementTimeoutSeconds',
    label: 'Time limit of a statement (s)',
    description: 'Then it is cancelled.',
    factor: 1,
  },
  {
    field: 'autoSuspendSeconds',
    label: 'Suspend after idle (s)',
    description: '0: never.',
    factor: 1,
    isOfOwnProcesses: true,
  },
];

export interface WarehouseDraft {
  readonly name: string;
  readonly comment: string;
  /** The cluster and its user; undefined: an engine in processes of this server. An empty password is not changed. */
  readonly cluster: { readonly name: string; readonly user: string; readonly password: string } | undefined;
  /** Null: it has no processes that could be resumed. */
  readonly autoResume: boolean | null;
  /** As typed; empty: the server's default. */
  readonly limits: Readonly<Record<string, string>>;
}

export const draftOf = (warehouse?: WarehouseRecord): WarehouseDraft => ({
  name: warehouse?.name ?? '',
  comment: warehouse?.comment ?? '',
  cluster:
    warehouse && warehouse.cluster !== null
      ? { name: warehouse.cluster, user: warehouse.user ?? '', password: '' }
      : undefined,
  autoResume: warehouse ? warehouse.autoResume : true,
  limits: Object.fromEntries(
    limits.map(({ field, factor }) => {
      const value = warehouse?.[field] ?? null;
      return [field, value === null ? '' : String(value / factor)];
    }),
  ),
});

export const limitsOf = ({ cluster }: WarehouseDraft): readonly Limit[] =>
  limits.filter(({ isOfOwnProcesses }) => !cluster || !isOfOwnProcesses);

function credentialsOf({ cluster }: WarehouseDraft): Pick<WarehouseChange & object, 'user' | 'password'> {
  if (!cluster) return {};
  return { user: cluster.user, ...(cluster.password === '' ? {} : { password: cluster.password }) };
}

/** What differs from `before`, or from the defaults of a new one. */
export function changeOf(draft: WarehouseDraft, before?: WarehouseRecord): WarehouseChange {
  const was = draftOf(before).limits;
  const changed = limitsOf(draft).filter(
    ({ field }) => draft.limits[field] !== was[field] && draft.limits[field] !== '',
  );
  return {
    comment: draft.comment === '' ? null : draft.comment,
    ...(draft.cluster || draft.autoResume === null ? {} : { autoResume: draft.autoResume }),
    ...credentialsOf(draft),
    ...Object.fromEntries(
      changed.map(({ field, factor }) => [field, Math.round(Number(draft.limits[field]) * factor)]),
    ),
  };
}
