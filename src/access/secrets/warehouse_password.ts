// The passwords with which the server connects to the clusters of warehouses, encrypted in the store.
import type { Transaction } from 'kysely';
import type { Schema } from '../../store/schema.ts';
import type { Secrets } from './secrets.ts';

const secretOf = (warehouseId: string) => `warehouse/${warehouseId}`;

export const warehousePassword = (secrets: Secrets) => ({
  /** Undefined if the warehouse has none. */
  of: (warehouseId: string) => secrets.get(secretOf(warehouseId)),
  /** In the transaction that changes the warehouse. */
  put: (tx: Transaction<Schema>, warehouseId: string, password: string) =>
    secrets.put(secretOf(warehouseId), password, tx),
  remove: (tx: Transaction<Schema>, warehouseId: string) => secrets.remove(secretOf(warehouseId), tx),
});

export type WarehousePassword = ReturnType<typeof warehousePassword>;
