// The manifest of a backup of a whole server: the file that makes it one. Every other file of the backup is a piece of a file of the
// data directory, named after its digest.
import { type Static, Type } from '../../standard/type.ts';
import { validation } from '../../standard/validation.ts';
import { broken, manifestBytesMax, manifestText, unsealed } from '../manifest.ts';
import type { BackupTarget } from '../targets/backup_target.ts';

/** Of the backup as a whole; the files in it have formats of their own. */
export const serverFormatVersion = 1;
export const storePath = 'metadata.sqlite';
export const keysPath = 'keys.json';

const id = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
const root = 'server_backups/';
const manifestName = 'manifest.json';
const Bytes = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const Name = Type.String({ minLength: 1, maxLength: 1024 });

const CopiedFile = Type.Object({
  /** From the data directory. Nothing else is ever written by a restore. */
  path: Type.String({ pattern: `^(?:metadata\\.sqlite|keys\\.json|catalogs/${id}(?:\\.[a-z]{1,16}){1,3})$` }),
  bytes: Bytes,
  pieces: Type.Array(Type.Object({ sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }), bytes: Bytes })),
});
const LeftOut = Type.Object({ name: Name, reason: Type.String() });
const ServerManifest = Type.Object({
  formatVersion: Type.Integer(),
  backupId: Type.String({ pattern: `^${id}$` }),
  /** The instant: what was acknowledged before it is in the backup, what was begun after it is not. */
  takenAt: Type.String({ format: 'date-time' }),
  release: Type.String(),
  /** Of the tables of the metadata store. */
  storeVersion: Type.Integer({ minimum: 1 }),
  /** `outside`: the key of the secrets is not in the data directory, and not in the backup. */
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

/** Throws DATA_INVALID where it is not as it was written, or not one that this release can read. */
export async function serverManifestAt(
  place: BackupTarget,
  backupId: string,
  signal?: AbortSignal,
): Promise<ServerManifest> {
  const text = await place.readSmall(serverManifestPath(backupId), manifestBytesMax, signal);
  const { manifest } = unsealed(text.toString(), serverFormatVersion);
  if (!validation().Compile(ServerManifest).Check(manifest)) throw broken('its manifest is none that a server wrote');
  if (manifest.backupId !== backupId) throw broken('its manifest is that of another backup');
  for (const { bytes, pieces } of manifest.files)
    if (pieces.reduce((sum, piece) => sum + piece.bytes, 0) !== bytes) throw broken('its manifest contradicts itself');
  for (const path of [storePath, keysPath])
    if (!manifest.files.some((file) => file.path === path)) throw broken(`it lacks ${path}`);
  if (new Set(manifest.files.map(({ path }) => path)).size !== manifest.files.length)
    throw broken('its manifest contradicts itself');
  return manifest;
}

/** Ids of the backups of servers in a place, those without a manifest among them; the newest first. */
export async function serverBackupsAt(
  place: BackupTarget,
  signal?: AbortSignal,
): Promise<{ readonly whole: string[]; readonly unfinished: string[] }> {
  const found = new Map<string, boolean>();
  for await (const { path } of place.list(root, signal)) {
    const [, backupId, name] = new RegExp(`^${root}(${id})/(.*)$`).exec(path) ?? [];
    if (backupId !== undefined) found.set(backupId, found.get(backupId) === true || name === manifestName);
  }
  const ids = [...found.keys()].sort().reverse();
  return { whole: ids.filter((one) => found.get(one)), unfinished: ids.filter((one) => !found.get(one)) };
}

/** A piece that is in two places counts once. */
export function serverTotals({ files, catalogs }: ServerManifest) {
  const pieces = new Map(files.flatMap((file) => file.pieces.map((piece) => [piece.sha256, piece.bytes] as const)));
  return {
    catalogs: catalogs.length,
    files: pieces.size,
    bytes: [...pieces.values()].reduce((sum, bytes) => sum + bytes, 0),
  };
}
