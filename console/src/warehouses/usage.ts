// Memory and spill of warehouses over time: the samples that this page took since it was opened. The server keeps none.
import type { BackendRecord } from './warehouses.ts';

export interface Sample {
  /** In milliseconds since 1970. */
  readonly at: number;
  readonly memoryBytes: number;
  readonly spilledBytes: number;
}

/** At one every two seconds, half an hour. */
const samplesMax = 900;
const samples = new Map<string, readonly Sample[]>();

/** To be called with each reading of all backends of a warehouse. */
export function recordUsage(warehouse: string, backends: readonly BackendRecord[], at = Date.now()): void {
  const sum = (field: 'memoryUsedBytes' | 'spilledBytes') =>
    backends.reduce((total, backend) => total + backend[field], 0);
  const sample = { at, memoryBytes: sum('memoryUsedBytes'), spilledBytes: sum('spilledBytes') };
  samples.set(warehouse, [...usageOf(warehouse).slice(1 - samplesMax), sample]);
}

export const usageOf = (warehouse: string): readonly Sample[] => samples.get(warehouse) ?? [];
