// The version of the object in a record: its ETag, and the object version that conditional changes are checked against (rest-standard B4).
import { createHash } from 'node:crypto';
import type { ObjectVersion } from '../model/principal.ts';

/** A record carries under this symbol the version of the object that it shows: copied with the fields of the record, but not part of its JSON. */
export const objectVersion = Symbol('objectVersion');

export interface RecordVersion {
  readonly version: number;
  /** A strong entity tag, with its quotes. */
  readonly etag: string;
  readonly objectVersion: ObjectVersion | undefined;
}

const etagCharacters = 22;

/** Undefined for a result that is not a record. A record without an object version is identified by the id in its URI or by its creation time. */
export function versionOf(record: object): RecordVersion | undefined {
  const {
    version,
    uri,
    createdAt,
    [objectVersion]: shown,
  } = record as Record<string | symbol, unknown> & { [objectVersion]?: ObjectVersion };
  if (typeof version !== 'number' || typeof uri !== 'string') return undefined;
  const identity = JSON.stringify([shown?.objectId, createdAt, version]);
  const tag = createHash('sha256').update(identity).digest('base64url').slice(0, etagCharacters);
  return { version, etag: `"${tag}"`, objectVersion: shown };
}
