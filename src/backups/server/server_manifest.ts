// The manifest of a backup of a whole server: the file that marks it as complete. Every other file of the backup is a piece of a file of
// the data directory, named by its digest.
import { type Static, Type } from '../../standard/type.ts';
import { validation } from '../../standard/validation.ts';
import { manifestText, unsealManifest, unusableBackup } from '../manifest.ts';
import { readLargeManifest } from '../manifest_reader.ts';
import { type BackupTarget, readManifestFile } from '../targets/backup_target.ts';

/** Format of the backup as a whole; the files in it have their own formats. */
export const serverFormatVersion = 1;
export const storePath = 'metadata.sqlite';
export const keysPath = 'keys.json';

const id = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
const root = 'server_backups/';
const manifestName = 'manifest.json';
const Bytes = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const Name = Type.String({ minLength: 1, maxLength: 1024 });

const CopiedFile = Type.Object({
  /** Relative to the data directory. A restore never writes any other path. */
  path: Type.String({ pattern: `^(?:metadata\\.sqlite|keys\\.json|catalogs/${id}(?:\\.[a-z]{1,16}){1,3})$` }),
  bytes: Bytes,
  pieces: Type.Array(Type.Object({ sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }), bytes: Bytes })),
});
const LeftOut = Type.Object({ name: Name, reason: Type.String() });
const ServerManifest = Type.Object({
  formatVersion: Type.Integer(),
  backupId: Type.String({ pattern: `^${id}$` }),
  /** The instant of the backup: it contains what was acknowledged before, and nothing that began after. */
  takenAt: Type.String({ format: 'date-time' }),
  release: Type.String(),
  /** Schema version of the metadata store. */
  storeVersion: Type.Integer({ minimum: 1 }),
  /** `outside`: the key of the secrets is neither in the data directory nor in the backup. */
  secretKey: Type.Union([Type.Literal('plain'), Type.Literal('wrapped'), Type.Literal('outside')]),
  catalogs: Type.Array(Name),
  catalogsLeftOut: Type.Array(LeftOut),
  files: Type.Array(CopiedFile),
});

export type ServerManifest = Static<typeof ServerManifest>;
export type CopiedFile = Static<typeof CopiedFile>;
export type CatalogLeftOut = Static<typeof LeftOut>;

export const serverFolder = (backupId: string): string => `${root}${backupId}/`;
export const serverManifestPath = (backupId: string): string => `${serverFolder(backupId)}${manifestName}`;
export const piecePath = (backupId: string, sha256: string): string => `${serverFolder(backupId)}${sha256}`;

export const serverManifestText: (manifest: ServerManifest) => string = manifestText;

/** Throws DATA_INVALID. */
export async function loadServerManifest(
  target: BackupTarget,
  backupId: string,
  signal?: AbortSignal,
): Promise<ServerManifest> {
  const bytes = await readManifestFile(target, serverManifestPath(backupId), signal);
  return readLargeManifest(readServerManifest, { of: 'server', bytes, backupId }, signal);
}

/** Throws DATA_INVALID if the manifest was altered, or if this release cannot read it. */
export function readServerManifest(text: Buffer, backupId: string): ServerManifest {
  const { manifest } = unsealManifest(text, serverFormatVersion);
  if (!validation().Compile(ServerManifest).Check(manifest))
    throw unusableBackup('its manifest was not written by a server');
  if (manifest.backupId !== backupId) throw unusableBackup('its manifest is that of another backup');
  for (const { bytes, pieces } of manifest.files)
    if (pieces.reduce((sum, piece) => sum + piece.bytes, 0) !== bytes)
      throw unusableBackup('its manifest is inconsistent');
  for (const path of [storePath, keysPath])
    if (!manifest.files.some((file) => file.path === path)) throw unusableBackup(`it lacks ${path}`);
  if (new Set(manifest.files.map(({ path }) => path)).size !== manifest.files.length)
    throw unusableBackup('its manifest is inconsistent');
  return manifest;
}

/** Ids of the server backups in a target, newest first, with and without a manifest. */
export async function listServerBackups(
  target: BackupTarget,
  signal?: AbortSignal,
): Promise<{ readonly whole: string[]; readonly unfinished: string[] }> {
  const found = new Map<string, boolean>();
  for await (const { path } of target.list(root, signal)) {
    const [, backupId, name] = new RegExp(`^${root}(${id})/(.*)$`).exec(path) ?? [];
    if (backupId !== undefined) found.set(backupId, found.get(backupId) === true || name === manifestName);
  }
  const ids = [...found.keys()].sort().reverse();
  return { whole: ids.filter((id) => found.get(id)), unfinished: ids.filter((id) => !found.get(id)) };
}

/** The sizes of the pieces by their digests: one that is shared by two files counts once. */
export const piecesOf = ({ files }: Pick<ServerManifest, 'files'>): ReadonlyMap<string, number> =>
  new Map(files.flatMap((file) => file.pieces.map((piece) => [piece.sha256, piece.bytes] as const)));

export function serverTotals(manifest: ServerManifest) {
  const pieces = piecesOf(manifest);
  return {
    catalogs: manifest.catalogs.length,
    files: pieces.size,
    bytes: [...pieces.values()].reduce((sum, bytes) => sum + bytes, 0),
  };
}
