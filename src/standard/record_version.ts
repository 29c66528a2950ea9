// Which state of which object a record shows: its ETag, and what a conditional change is checked against (rest-standard B4).
import { createHash } from 'node:crypto';
import type { Basis } from '../model/principal.ts';

/** Under this symbol a record carries its basis, the object of the catalog whose version it depends on; it is copied with the record's fields and is not part of its JSON. */
export const basisOf = Symbol('basis');

export interface RecordVersion {
  readonly version: number;
  /** Strong, with its quotes. */
  readonly etag: string;
  readonly basis: Basis | undefined;
}

const tagCharacters = 22;

/** Undefined for a result that is no record. A record without a basis has an id in its URI or is known by when it was created. */
export function versionOf(record: object): RecordVersion | undefined {
  const {
    version,
    uri,
    createdAt,
    [basisOf]: basis,
  } = record as Record<string | symbol, unknown> & { [basisOf]?: Basis };
  if (typeof version !== 'number' || typeof uri !== 'string') return undefined;
  const identity = JSON.stringify([basis?.objectId, createdAt, version]);
  const tag = createHash('sha256').update(identity).digest('base64url').slice(0, tagCharacters);
  return { version, etag: `"${tag}"`, basis };
}
