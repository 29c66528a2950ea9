// Operations of the engine process that are methods of the port: the process gets the argument of the method and returns its value. A
// method in this table needs no other change in this adapter.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { ArgumentOf, DirectOperations as DirectOperationsOf, MethodName, ValueOf } from '../../derived_engine.ts';
import { tableStatistics } from '../ddl/table_statistics.ts';
import { recordedSteps, rememberSteps } from '../instance/applied_steps.ts';
import { checksumTable } from '../query/table_checksum.ts';
import { readWholeTable } from '../storage/check_tables.ts';
import { changeTimeoutMs, shortTimeoutMs } from './time_limits.ts';
import { locateErrors } from './wire_errors.ts';

type DirectOperation<K extends MethodName> = {
  readonly timeoutMs: number;
  readonly run: (connection: DuckDBConnection, argument: ArgumentOf<K>) => Promise<ValueOf<K>>;
};

export const directOperations = {
  tableStatistics: { timeoutMs: shortTimeoutMs, run: tableStatistics },
  checksumTable: {
    timeoutMs: changeTimeoutMs,
    run: (connection, table) => locateErrors('', 0, () => checksumTable(connection, table)),
  },
  recordedSteps: { timeoutMs: shortTimeoutMs, run: recordedSteps },
  recordSteps: {
    timeoutMs: shortTimeoutMs,
    run: (connection, { catalog, steps }) => rememberSteps(connection, catalog.name, steps),
  },
  readWholeTable: {
    timeoutMs: changeTimeoutMs,
    run: (connection, table) => locateErrors('', 0, () => readWholeTable(connection, table)),
  },
} satisfies { readonly [K in MethodName]?: DirectOperation<K> };

export type DirectName = keyof typeof directOperations;
export type DirectOperations = DirectOperationsOf<DirectName>;

export const directNames = Object.keys(directOperations) as DirectName[];

export const isDirect = (name: string): name is DirectName => Object.hasOwn(directOperations, name);
