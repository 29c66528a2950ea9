// What a backup says of itself: the file that makes it one. How it is written and read, with its digest; who wrote what is in it is
// not known, so that all of it is looked at before it is used. What it names is checked by who reads the files.
import { createHash } from 'node:crypto';
import { Failure } from '../standard/failure.ts';
import { type Static, Type } from '../standard/type.ts';
import { validation } from '../standard/validation.ts';

export const formatVersion = 1;
export const manifestName = 'manifest.json';
/** One with 100,000 tables of 20 columns is about half as large. */
export const manifestBytesMax = 1024 ** 3;

const id = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
const Id = Type.String({ pattern: `^${id}$` });
const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const Name = Type.String({ minLength: 1, maxLength: 1024 });
const Names = Type.Array(Type.String());
const described = {
  comment: Type.Optional(Type.String()),
  properties: Type.Optional(Type.Record(Type.String(), Type.String())),
};

const Part = Type.Object({
  part: Count,
  rows: Count,
  fingerprint: Type.String(),
  sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  bytes: Count,
  /** From where the backups are; it can be in the folder of an earlier one. */
  path: Type.String({ pattern: `^backups/${id}/[0-9a-f]{64}\\.parquet$` }),
});
/** As the body of a request that would make the table. */
const Definition = Type.Object({
  ...described,
  columns: Type.Array(
    Type.Object({
      name: Name,
      type: Type.String(),
      nullable: Type.Boolean(),
      defaultValue: Type.Optional(Type.String()),
      comment: Type.Optional(Type.String()),
    }),
  ),
  primaryKey: Names,
  unique_key_constraints: Names,
  orderBy: Names,
  partitionBy: Names,
  distribution: Type.Object({ by: Names, buckets: Type.Integer() }),
  replicationNum: Type.Integer(),
});
const Table = Type.Object({ id: Id, name: Name, definition: Definition, rows: Count, parts: Type.Array(Part) });
const View = Type.Object({
  id: Id,
  name: Name,
  ...described,
  sql: Type.String({ minLength: 1, maxLength: 1_048_576 }),
});
const Database = Type.Object({
  id: Id,
  name: Name,
  ...described,
  tables: Type.Array(Table),
  views: Type.Array(View),
});
const Manifest = Type.Object({
  formatVersion: Type.Integer(),
  backupId: Id,
  takenAt: Type.String({ format: 'date-time' }),
  release: Type.String(),
  of: Type.Object({
    category: Type.Union([Type.Literal('catalogs'), Type.Literal('databases')]),
    id: Id,
    name: Name,
    /** Of a database, the catalog that it was in. */
    catalog: Name,
    ...described,
  }),
  databases: Type.Array(Database),
});

export type Manifest = Static<typeof Manifest>;
export type BackedUpDatabase = Static<typeof Database>;
export type BackedUpTable = Static<typeof Table>;
export type BackedUpView = Static<typeof View>;
export type BackedUpPart = Static<typeof Part>;
export type TableBody = Static<typeof Definition>;

const digestOf = (manifest: unknown) => createHash('sha256').update(JSON.stringify(manifest)).digest('hex');

export const folderOf = (backupId: string): string => `backups/${backupId}/`;
export const manifestPath = (backupId: string): string => `${folderOf(backupId)}${manifestName}`;
export const filePath = (backupId: string, sha256: string): string => `${folderOf(backupId)}${sha256}.parquet`;
/** The backup in whose folder a file is. */
export const folderIdOf = (path: string): string | undefined => new RegExp(`^backups/(${id})/`).exec(path)?.[1];

/** Throws INVALID_PARAMETER where it is larger than one may be. */
export function manifestText(manifest: object): string {
  const text = `${JSON.stringify({ digest: digestOf(manifest), manifest }, null, 1)}\n`;
  if (Buffer.byteLength(text) <= manifestBytesMax) return text;
  throw new Failure(
    'INVALID_PARAMETER',
    'there is more in it than one backup can say: back up its databases one by one',
  );
}

export interface ReadManifest {
  readonly manifest: Manifest;
  readonly digest: string;
}

/** What `manifestText` wrote, its content not checked yet. Throws DATA_INVALID where it is not as it was written, or of another format. */
export function unsealed(text: string, format: number): { readonly manifest: unknown; readonly digest: string } {
  const { digest, manifest } = (parsed(text) ?? {}) as { digest?: unknown; manifest?: { formatVersion?: unknown } };
  if (typeof digest !== 'string' || typeof manifest !== 'object' || manifest === null)
    throw broken('its manifest is not whole');
  if (digestOf(manifest) !== digest) throw broken('its manifest is not as it was written');
  if (manifest.formatVersion !== format)
    throw broken(`it is of format ${JSON.stringify(manifest.formatVersion)}, and this release reads ${format}`);
  return { manifest, digest };
}

/** Throws DATA_INVALID where it is not as it was written, or not one that this release can read. */
export function readManifest(text: string, backupId: string): ReadManifest {
  const { manifest, digest } = unsealed(text, formatVersion);
  if (!validation().Compile(Manifest).Check(manifest)) throw broken('its manifest is none that a server wrote');
  if (manifest.backupId !== backupId) throw broken('its manifest is that of another backup');
  for (const { rows, parts } of manifest.databases.flatMap(({ tables }) => tables))
    if (parts.reduce((sum, part) => sum + part.rows, 0) !== rows) throw broken('its manifest contradicts itself');
  return { manifest, digest };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export const broken = (why: string, result: Readonly<Record<string, unknown>> = {}): Failure =>
  new Failure('DATA_INVALID', `the backup cannot be used: ${why}`, result);

export function* partsOf(
  manifest: Manifest,
): Generator<{ readonly table: BackedUpTable; readonly part: BackedUpPart }> {
  for (const { tables } of manifest.databases)
    for (const table of tables) for (const part of table.parts) yield { table, part };
}

export interface Totals {
  readonly databases: number;
  readonly tables: number;
  readonly rows: number;
  readonly files: number;
  readonly bytes: number;
}

/** Of what a backup names, a file that stands for two parts counted once. */
export function totalsOf(manifest: Manifest): Totals {
  const tables = manifest.databases.flatMap((database) => database.tables);
  const files = new Map([...partsOf(manifest)].map(({ part }) => [part.path, part.bytes]));
  return {
    databases: manifest.databases.length,
    tables: tables.length,
    rows: tables.reduce((sum, { rows }) => sum + rows, 0),
    files: files.size,
    bytes: [...files.values()].reduce((sum, bytes) => sum + bytes, 0),
  };
}
