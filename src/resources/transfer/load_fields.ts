// Separates the source of a load, which its task may show, from its credentials.
import type { Source } from '../../api/transfer/load_fields.ts';
import type { ObjectStoreCredentials } from '../../outbound/object_store.ts';
import type { LoadSource } from '../../query/loads/load_sources.ts';
import { invalidParameter } from '../../standard/failure.ts';
import type { Static } from '../../standard/type.ts';
import { storePlace } from './object_store_fields.ts';

export function splitSource({ s3: from, ...source }: Static<typeof Source>): {
  readonly source: LoadSource;
  readonly credentials: ObjectStoreCredentials | undefined;
} {
  if (!from) return { source, credentials: undefined };
  const { accessKeyId, secretAccessKey, sessionToken, ...location } = from;
  const hasNone = accessKeyId === undefined && sessionToken === undefined;
  if (hasNone ? secretAccessKey !== undefined : accessKeyId === undefined || secretAccessKey === undefined)
    throw invalidParameter(
      '/source/s3',
      'credentials',
      'must have `accessKeyId` and `secretAccessKey` (optionally with `sessionToken`), or none of them',
    );
  const s3 = storePlace(location);
  if (accessKeyId === undefined || secretAccessKey === undefined) return { source: { s3 }, credentials: undefined };
  return { source: { s3 }, credentials: { accessKeyId, secretAccessKey, sessionToken } };
}
