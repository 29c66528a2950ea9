// The tables of a table on the servers: the local one with the rows of a server, and the Distributed one above those of all servers.
import { createHash } from 'node:crypto';
import type { ColumnDefinition, TableDefinition } from '../../../model/records.ts';
import { isNested } from '../../../model/types.ts';
import { storedDefault } from '../analysis/default_expression.ts';
import type { StoredNames } from '../connection/server.ts';
import { qualifiedName, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { serverType } from '../types/type_mapping.ts';

/** The hidden column with the number of the load that a row came with (load/staging.ts). */
const loadColumn = '_load';

/** How many inserts a local table remembers, so that one that is repeated is applied once. */
const deduplicationWindow = 10_000;
/** As long as steps are recorded (steps/applied_steps.ts). Current servers forget after an hour otherwise, older ones after a week. */
const deduplicationSeconds = 30 * 24 * 3600;
/** How often a replica looks whether its session with Keeper has expired, and begins another. Until then it takes no rows; by default once a minute. */
const sessionCheckSeconds = 3;

const names = (list: readonly string[]): string => list.map(quoteIdentifier).join(', ');

/** `a Int32 DEFAULT 7`. */
export function columnSql({ name, type, nullable, defaultValue }: ColumnDefinition): string {
  const stored = serverType(type, nullable);
  const given = defaultValue === undefined ? '' : ` DEFAULT CAST((${storedDefault(defaultValue)}) AS ${stored})`;
  return `${quoteIdentifier(name)} ${stored}${given}`;
}

/** What the type of a column on the servers does not say: the length of a text, and that a text is JSON. By the names of constraints. */
export function constraintsOf({ columns }: Pick<TableDefinition, 'columns'>): ReadonlyMap<string, string> {
  return new Map(
    columns.flatMap(({ name, type }): readonly (readonly [string, string])[] => {
      const column = quoteIdentifier(name);
      if (type.kind === 'CHAR' || type.kind === 'VARCHAR')
        return [[`length of ${name}`, `ifNull(lengthUTF8(${column}) <= ${type.length}, 1)`]];
      return type.kind === 'JSON' ? [[`JSON in ${name}`, isJson(column)]] : [];
    }),
  );
}

/** Servers take numbers that no 64-bit type can hold for invalid JSON: long numbers and large exponents are shortened. */
const isJson = (column: string): string =>
  `ifNull(isValidJSON(${column}) OR isValidJSON(replaceRegexpAll(${column}, '[0-9]{16,}|[eE][+-]?[0-9]{3,}', '1')), 1)`;

/** Columns of these names as an expression that keys can have; types that no key can have are left out. */
function keyColumns({ columns }: TableDefinition, keys: readonly string[]): readonly string[] {
  return keys.flatMap((key) => {
    const column = columns.find(({ name }) => name === key);
    if (!column || isNested(column.type)) return [];
    const name = quoteIdentifier(key);
    const isMarked = column.type.kind === 'BINARY' || column.type.kind === 'JSON';
    return [isMarked ? `CAST(${name}, '${column.nullable ? 'Nullable(String)' : 'String'}')` : name];
  });
}

export const sortingKey = (definition: TableDefinition): readonly string[] =>
  keyColumns(definition, definition.orderBy.length > 0 ? definition.orderBy : definition.primaryKey);

/** The columns by which rows are spread over the shards. */
export function shardingColumns({ columns, distribution, primaryKey }: TableDefinition): readonly string[] {
  const by = distribution.by.length > 0 ? distribution.by : primaryKey;
  return by.length > 0 ? by : columns.map(({ name }) => name);
}

/**
 * A number from those columns; the same for the same row, so that a repeated insert meets the same shards. Of the bytes of their values: servers of
 * 24.8 cannot hash a tuple that contains a null.
 */
export const shardingKey = (definition: TableDefinition): string =>
  `sipHash64(formatRow('RowBinary', ${names(shardingColumns(definition))}))`;

/** An id that is the same for all attempts of a step, and never used again. */
function tableUuid(step: string): string {
  const hex = createHash('sha256').update(step).digest('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join('-');
}

export interface LocalTable {
  readonly names: StoredNames;
  readonly definition: TableDefinition;
  /** Of the change. */
  readonly step: string;
  readonly isReplicated: boolean;
}

const pathBegin = "ReplicatedMergeTree('/tabularium/";
const commentBegin = 'Tabularium table ';

/** How the engine clause, or where nothing replicates, the comment of a local table begins, and how it does if this step has created it. */
export function markOf({ step, isReplicated }: Pick<LocalTable, 'step' | 'isReplicated'>) {
  const begin = isReplicated ? pathBegin : commentBegin;
  return { begin, mark: `${begin}${tableUuid(step)}` };
}

export function createLocalSql({ names: stored, definition, step, isReplicated }: LocalTable): string {
  const constraints = [...constraintsOf(definition)].map(
    ([name, check]) => `CONSTRAINT ${quoteIdentifier(name)} CHECK ${check}`,
  );
  const columns = [...definition.columns.map(columnSql), `${quoteIdentifier(loadColumn)} UInt64 MATERIALIZED 0`];
  const { mark } = markOf({ step, isReplicated });
  const engine = isReplicated ? `${mark}/{shard}', '{replica}')` : 'MergeTree';
  const partition = keyColumns(definition, definition.partitionBy);
  const settings = [
    'allow_nullable_key = 1',
    ...(partition.length > 0 ? ['allow_floating_point_partition_key = 1'] : []),
    ...(isReplicated
      ? [
          `replicated_deduplication_window = ${deduplicationWindow}`,
          `replicated_deduplication_window_seconds = ${deduplicationSeconds}`,
          `zookeeper_session_expiration_check_period = ${sessionCheckSeconds}`,
        ]
      : [`non_replicated_deduplication_window = ${deduplicationWindow}`]),
  ];
  return [
    `CREATE TABLE IF NOT EXISTS ${qualifiedName({ database: stored.database, table: stored.localTable })}`,
    `(${[...columns, ...constraints].join(', ')}) ENGINE = ${engine}`,
    ...(partition.length > 0 ? [`PARTITION BY (${partition.join(', ')})`] : []),
    `ORDER BY (${sortingKey(definition).join(', ')})`,
    `SETTINGS ${settings.join(', ')}`,
    ...(isReplicated ? [] : [`COMMENT ${quoteLiteral(mark)}`]),
  ].join(' ');
}

/** Replaces it if it exists: it has no rows of its own. `key`: `shardingKey`, or that of the table that it replaces. */
export function createDistributedSql(cluster: string, stored: StoredNames, key: string): string {
  const local = qualifiedName({ database: stored.database, table: stored.localTable });
  const place = [cluster, stored.database, stored.localTable].map(quoteLiteral).join(', ');
  return `CREATE OR REPLACE TABLE ${qualifiedName(stored)} AS ${local} ENGINE = Distributed(${place}, ${key})`;
}

const literal = String.raw`'(?:[^'\\]|\\.)*'`;
const distributed = new RegExp(
  String.raw`^Distributed\(${literal}, (${literal}), ${literal}, ([\s\S]+)\)(?: SETTINGS [\s\S]*)?$`,
);

/** What the engine of a Distributed table says: the quoted name of its database, and its sharding key. */
export function parseDistributed(engine: string): { readonly database: string; readonly key: string } | undefined {
  const [, database, key] = distributed.exec(engine) ?? [];
  return database === undefined || key === undefined ? undefined : { database, key };
}
