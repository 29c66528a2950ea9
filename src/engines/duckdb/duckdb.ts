// DuckDB as an engine of the port: its name, its reserved names and key types, and how a warehouse on it is opened.
import type { TypeKind } from '../../model/types.ts';
import { engineWith } from '../derived_engine.ts';
import type { Engine } from '../port/engine.ts';
import { ownPrefix, ownSchema } from './instance/applied_steps.ts';
import { withTableLocks } from './instance/table_locks.ts';
import { rowsPage } from './query/row_positions.ts';
import { Confinement } from './sandbox/sandbox.ts';
import { duckdbStorage } from './storage/file_position.ts';
import { embedded } from './storage/topology.ts';
import { datesOutside } from './types/date_range.ts';
import { type DuckdbOptions, DuckdbWarehouse } from './warehouse.ts';

const reserved: Readonly<Record<string, readonly string[]>> = {
  catalogs: ['temp', 'system', 'memory', 'main'],
  databases: ['information_schema', 'pg_catalog', ownSchema],
};

const unkeyable: readonly TypeKind[] = ['ARRAY', 'MAP', 'STRUCT', 'JSON'];

export const duckdbWith = (duckdbOptions: DuckdbOptions): Engine => ({
  name: 'duckdb',
  backends: [embedded],
  reservedName(category, name) {
    const isOwn = (category === 'tables' || category === 'views') && name.toLowerCase().startsWith(ownPrefix);
    if (!isOwn && !reserved[category]?.includes(name.toLowerCase())) return undefined;
    return `${JSON.stringify(name)} is reserved by the engine; choose another name`;
  },
  keyable: (type) => !unkeyable.includes(type.kind),
  rowsPage,
  datesOutside,
  storage: duckdbStorage,
  limits: { columnsMax: 10_000 },
  capabilities: {
    enforcedKeys: true,
    upsert: true,
    views: true,
    undrop: true,
    backups: true,
    catalogSnapshots: true,
    profile: true,
    exports: true,
    schemaInference: true,
    parquetFiles: true,
    rowPositions: true,
  },
  open(options) {
    const warehouse = new DuckdbWarehouse(options, duckdbOptions);
    return withTableLocks(engineWith(warehouse, warehouse.direct));
  },
});

export const duckdbEngine: Engine = duckdbWith({ confinement: new Confinement('auto'), analysisTimeoutMs: 10_000 });
