// The engine: warehouses on clusters of ClickHouse servers, which callers register as backends.
import type { TypeKind } from '../../model/types.ts';
import type { HostAllowlist } from '../../outbound/host_allowlist.ts';
import type { Engine } from '../port/engine.ts';
import { probeServer, serverResponds } from './cluster/probe.ts';
import { nameTooLong } from './names.ts';
import { dates } from './types/row_text.ts';
import { openWarehouse } from './warehouse.ts';

/** Types that a sorting key cannot have, or whose values are not compared. */
const unkeyable: readonly TypeKind[] = ['ARRAY', 'MAP', 'STRUCT', 'JSON', 'BINARY', 'FLOAT', 'DOUBLE'];

/** `hosts`: to which servers warehouses may connect; absent: any. */
export const clickhouseWith = ({ hosts }: { readonly hosts?: HostAllowlist } = {}): Engine => ({
  name: 'clickhouse',
  backends: [],
  reservedName(category, name) {
    if (category === 'columns')
      return virtualColumns.has(name.toLowerCase()) ? 'the engine has a column of this name' : undefined;
    return nameTooLong(name);
  },
  keyable: (type) => !unkeyable.includes(type.kind),
  rowsPage() {
    throw new Error('rows have no positions');
  },
  isReachedByAllServers: true,
  limits: { columnsMax: 2000, dates },
  capabilities: {
    enforcedKeys: false,
    upsert: false,
    views: true,
    undrop: true,
    backups: true,
    catalogSnapshots: false,
    profile: false,
    exports: true,
    schemaInference: true,
    parquetFiles: true,
    rowPositions: false,
  },
  cluster: {
    probe: (candidate, { signal }) => probeServer(candidate, { signal, hosts }),
    responds: (location) => serverResponds(location, hosts),
  },
  open: (options) => openWarehouse(options, hosts),
});

/** Columns that every table has on the servers. */
const virtualColumns: ReadonlySet<string> = new Set([
  '_load',
  '_part',
  '_part_index',
  '_part_uuid',
  '_part_offset',
  '_part_starting_offset',
  '_part_data_version',
  '_partition_id',
  '_partition_value',
  '_sample_factor',
  '_row_exists',
  '_block_number',
  '_block_offset',
  '_shard_num',
  '_table',
  '_database',
  '_distance',
  '_disk_name',
]);
