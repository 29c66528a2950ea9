// The columns of a Parquet file, as a server sees them: its footer alone, as the whole of a file, is enough for that.
import { open } from 'node:fs/promises';
import type { LogicalType } from '../../../model/types.ts';
import { dataInvalid, incompleteFile } from '../../data_files/load_failures.ts';
import { ClickHouseError } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import { logicalTypeOf } from '../types/type_mapping.ts';

export interface ParquetColumn {
  readonly name: string;
  readonly type: LogicalType;
  /** The type that a server reads. */
  readonly serverType: string;
  /** A string of bytes that is not marked as text. */
  readonly isBytes: boolean;
}

const tailBytes = 8;
const magic = 'PAR1';
/** A footer of thousands of columns and row groups has some megabytes. */
const footerBytesMax = 64 * 1024 * 1024;
const callTimeoutMs = 30_000;

/** Throws DATA_INVALID. */
export async function readParquetColumns(
  server: ClickHouseServer,
  path: string,
  signal?: AbortSignal,
): Promise<ParquetColumn[]> {
  const footer = await readFooter(path);
  const call = { timeoutMs: callTimeoutMs, isOfCaller: true, signal };
  const file = `unhex(${`'${Buffer.concat([Buffer.from(magic), footer]).toString('hex')}'`})`;
  const settings = { max_query_size: footer.length * 2 + 100_000, schema_inference_make_columns_nullable: 1 };
  try {
    const described = await server.rows<{ name: string; type: string }>({
      ...call,
      settings,
      sql: `DESCRIBE format(Parquet, ${file})`,
    });
    const leaves = await server.rows<{ path: string; physical: string; logical: string }>({
      ...call,
      settings,
      sql: `SELECT tupleElement(c, 'path') AS path, tupleElement(c, 'physical_type') AS physical, tupleElement(c, 'logical_type') AS logical FROM (SELECT arrayJoin(columns) AS c FROM format(ParquetMetadata, ${file}))`,
    });
    const bytes = new Set(
      leaves.flatMap(({ path, physical, logical }) =>
        /BYTE_ARRAY/.test(physical) && logical === 'None' ? [path] : [],
      ),
    );
    const unzoned = new Set(
      leaves.flatMap(({ path, logical }) => (/isAdjustedToUTC=false/.test(logical) ? [path] : [])),
    );
    return described.map(({ name, type }) =>
      columnOf(name, type, { isBytes: bytes.has(name), isUnzoned: unzoned.has(name) }),
    );
  } catch (error) {
    if (error instanceof ClickHouseError) throw incompleteFile();
    throw error;
  }
}

function columnOf(
  name: string,
  text: string,
  { isBytes, isUnzoned }: { readonly isBytes: boolean; readonly isUnzoned: boolean },
): ParquetColumn {
  const type = logicalTypeOf(text) ?? nearest(text);
  if (!type)
    throw dataInvalid(`the column ${JSON.stringify(name)} of the file has a type that cannot be read`, {
      column: name,
    });
  const isBinary = isBytes && type.kind === 'STRING';
  const isLocalTime = isUnzoned && type.kind === 'TIMESTAMPTZ';
  return {
    name,
    type: isBinary ? { kind: 'BINARY' } : isLocalTime ? { kind: 'DATETIME' } : type,
    serverType: text,
    isBytes: isBinary,
  };
}

/** Times with more digits than a logical type has. */
const nearest = (text: string): LogicalType | undefined => {
  const [, zone] = /^(?:Nullable\()?DateTime64\(9(?:, ('[^']*'))?\)\)?$/.exec(text) ?? [];
  if (/DateTime64\(9/.test(text)) return { kind: zone === undefined ? 'DATETIME' : 'TIMESTAMPTZ' };
  return undefined;
};

/** With its length and the magic at the end. */
async function readFooter(path: string): Promise<Buffer> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const tail = Buffer.alloc(tailBytes);
    if (size < 2 * tailBytes) throw incompleteFile();
    await file.read(tail, 0, tailBytes, size - tailBytes);
    const length = tail.readUInt32LE(0);
    if (tail.toString('latin1', 4) !== magic || length + tailBytes > size || length > footerBytesMax)
      throw incompleteFile();
    const footer = Buffer.alloc(length + tailBytes);
    await file.read(footer, 0, footer.length, size - footer.length);
    return footer;
  } finally {
    await file.close();
  }
}
