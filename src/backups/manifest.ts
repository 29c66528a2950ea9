// The manifest of a backup: the file that marks it as complete. It is written and read with a digest. Its author is unknown, so
// everything in it is validated before use. The files that it names are checked by their readers.
import { createHash } from 'node:crypto';
import { Comment, PropertiesField } from '../api/fields.ts';
import { Failure } from '../standard/failure.ts';
import { type Immutable, type Static, Type } from '../standard/type.ts';
import { validation } from '../standard/validation.ts';

export const formatVersion = 1;
export const manifestName = 'manifest.json';
/** One of 10,000 tables of 20 columns, or of 150,000 files, has about 50 MiB. */
export const manifestBytesMax = 64 * 1024 ** 2;
/** The deepest part of a manifest is in the definition of a table; specs of other objects may be deeper. */
const depthMax = 64;

const id = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
const Id = Type.String({ pattern: `^${id}$` });
const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const Name = Type.String({ minLength: 1, maxLength: 1024 });
const Names = Type.Array(Type.String());
/** With the limits of requests: they are stored and shown as they are. */
const described = { comment: Type.Optional(Comment), properties: Type.Optional(PropertiesField) };

const Part = Type.Object({
  part: Count,
  rows: Count,
  fingerprint: Type.String(),
  sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  bytes: Count,
  /** Relative to the target; may be in the folder of an earlier backup. */
  path: Type.String({ pattern: `^backups/${id}/[0-9a-f]{64}\\.parquet$` }),
});
/** In the form of a request body that creates the table. */
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
/** An object without a part in an engine. */
const MetadataObject = Type.Object({ category: Name, id: Id, name: Name, spec: Type.Unknown() });
const Database = Type.Object({
  id: Id,
  name: Name,
  ...described,
  tables: Type.Array(Table),
  views: Type.Array(View),
  objects: Type.Optional(Type.Array(MetadataObject)),
});
const Manifest = Type.Object({
  formatVersion: Type.Integer(),
  backupId: Id,
  takenAt: Type.String({ format: 'date-time' }),
  release: Type.String(),
  /** That wrote the rows; absent: one that has snapshots of catalogs. Only the same engine reads them. */
  engine: Type.Optional(Type.String()),
  of: Type.Object({
    category: Type.Union([Type.Literal('catalogs'), Type.Literal('databases')]),
    id: Id,
    name: Name,
    /** Name of the catalog; for a database, the catalog that it was in. */
    catalog: Name,
    ...described,
  }),
  databases: Type.Array(Database),
});

export type Manifest = Immutable<Static<typeof Manifest>>;
export type BackedUpDatabase = Immutable<Static<typeof Database>>;
export type BackedUpTable = Immutable<Static<typeof Table>>;
export type BackedUpObject = Immutable<Static<typeof MetadataObject>>;
export type BackedUpView = Immutable<Static<typeof View>>;
export type BackedUpPart = Immutable<Static<typeof Part>>;
export type TableBody = Immutable<Static<typeof Definition>>;

const digestOf = (manifest: unknown) => createHash('sha256').update(JSON.stringify(manifest)).digest('hex');

export const backupFolder = (backupId: string): string => `backups/${backupId}/`;
export const manifestPath = (backupId: string): string => `${backupFolder(backupId)}${manifestName}`;
export const filePath = (backupId: string, sha256: string): string => `${backupFolder(backupId)}${sha256}.parquet`;
/** Id of the backup in whose folder the file is. */
export const backupIdOfFile = (path: string): string | undefined => new RegExp(`^backups/(${id})/`).exec(path)?.[1];

/** Throws INVALID_PARAMETER if the manifest exceeds the limits with which it is read. */
export function manifestText(manifest: object): string {
  const text = `${JSON.stringify({ digest: digestOf(manifest), manifest }, null, 1)}\n`;
  const bytes = Buffer.from(text);
  const refusal =
    bytes.length > manifestBytesMax
      ? `the manifest would exceed ${manifestBytesMax} bytes; back up the databases one by one`
      : depthOf(bytes) > depthMax
        ? `the manifest would have more than ${depthMax} levels, because the definition of an object is nested too deeply; make that flatter`
        : undefined;
  if (refusal !== undefined) throw new Failure('INVALID_PARAMETER', refusal);
  return text;
}

export interface ReadManifest {
  readonly manifest: Manifest;
  readonly digest: string;
}

/**
 * Parses the output of `manifestText` without validating its content. Throws DATA_INVALID if the digest does not match or the format is
 * another one.
 */
export function unsealManifest(bytes: Buffer, format: number): { readonly manifest: unknown; readonly digest: string } {
  if (depthOf(bytes) > depthMax) throw unusableBackup(`its manifest is nested more than ${depthMax} levels deep`);
  const { digest, manifest } = (tryParse(bytes.toString()) ?? {}) as {
    digest?: unknown;
    manifest?: { formatVersion?: unknown };
  };
  if (typeof digest !== 'string' || typeof manifest !== 'object' || manifest === null)
    throw unusableBackup('its manifest is incomplete');
  if (digestOf(manifest) !== digest) throw unusableBackup('its manifest was changed after it was written');
  if (manifest.formatVersion !== format)
    throw unusableBackup(`it is of format ${JSON.stringify(manifest.formatVersion)}, and this release reads ${format}`);
  return { manifest, digest };
}

/** Throws DATA_INVALID if the manifest was altered, or if this release cannot read it. */
export function readManifest(bytes: Buffer, backupId: string): ReadManifest {
  const { manifest, digest } = unsealManifest(bytes, formatVersion);
  if (!validation().Compile(Manifest).Check(manifest)) throw unusableBackup('its manifest was not written by a server');
  if (manifest.backupId !== backupId) throw unusableBackup('its manifest is that of another backup');
  for (const { rows, parts } of manifest.databases.flatMap(({ tables }) => tables))
    if (parts.reduce((sum, part) => sum + part.rows, 0) !== rows) throw unusableBackup('its manifest is inconsistent');
  return { manifest, digest };
}

/** How deep arrays and objects of a JSON text are nested. */
function depthOf(bytes: Buffer): number {
  let [depth, deepest, isInText] = [0, 0, false];
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (isInText) {
      if (byte === 0x5c) i++;
      else if (byte === 0x22) isInText = false;
    } else if (byte === 0x22) isInText = true;
    else if (byte === 0x5b || byte === 0x7b) deepest = Math.max(deepest, ++depth);
    else if (byte === 0x5d || byte === 0x7d) depth--;
  }
  return deepest;
}

/** Undefined if it is not JSON. */
export function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export const unusableBackup = (reason: string, result: Readonly<Record<string, unknown>> = {}): Failure =>
  new Failure('DATA_INVALID', `the backup cannot be used: ${reason}`, result);

export function* listParts(
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

/** Totals of a backup. A file that is shared by two parts counts once. */
export function computeTotals(manifest: Manifest): Totals {
  const tables = manifest.databases.flatMap((database) => database.tables);
  const files = new Map([...listParts(manifest)].map(({ part }) => [part.path, part.bytes]));
  return {
    databases: manifest.databases.length,
    tables: tables.length,
    rows: tables.reduce((sum, { rows }) => sum + rows, 0),
    files: files.size,
    bytes: [...files.values()].reduce((sum, bytes) => sum + bytes, 0),
  };
}
