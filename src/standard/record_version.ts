// The version of the object in a record: its ETag, and the basis that conditional changes are checked against (rest-standard B4).
import { createHash } from 'node:crypto';
import type { Basis } from '../model/principal.ts';

/** Under this symbol a record carries its basis, the object of the catalog whose version it depends on; it is copied with the record's fields and is not part of its JSON. */
export const basisOf = Symbol('basis');

export interface RecordVersion {
  readonly version: number;
  /** A strong entity tag, with its quotes. */
  readonly etag: string;
  readonly basis: Basis | undefined;
}

const etagCharacters = 22;

/** Undefined for a result that is not a record. A record without a basis is identified by the id in its URI or by its creation time. */
export function versionOf(record: object): RecordVersion | undefined {
  const {
    version,
    uri,
    createdAt,
    [basisOf]: basis,
  } = record as Record<string | symbol, unknown> & { [basisOf]?: Basis };
  if (typeof version !== 'number' || typeof uri !== 'string') return undefined;
  const identity = JSON.stringify([basis?.objectId, createdAt, version]);
  const tag = createHash('sha256').update(identity).digest('base64url').slice(0, etagCharacters);
  return { version, etag: `"${tag}"`, basis };
}
