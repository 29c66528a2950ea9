// The object store in a body: its address and its credentials. Shared by loads, exports and backups.

import { defaultRegion, type storeFolder } from '../../api/object_store_fields.ts';
import type { ObjectStoreCredentials, ObjectStoreLocation } from '../../outbound/object_store.ts';
import type { Static } from '../../standard/type.ts';

/** The part that the request of a task may show. */
export function storePlace<
  P extends { readonly region?: string | undefined; readonly pathStyle?: boolean | undefined },
>(body: P): Omit<P, 'region' | 'pathStyle'> & Pick<ObjectStoreLocation, 'region' | 'pathStyle'> {
  const { region = defaultRegion, pathStyle = true, ...location } = body;
  return { ...location, region, pathStyle };
}

/** Separates the part that may be shown from the credentials. */
export function storeFolderOf(body: Static<ReturnType<typeof storeFolder>>): {
  readonly location: ObjectStoreLocation & { readonly prefix: string };
  readonly credentials: ObjectStoreCredentials;
} {
  const { accessKeyId, secretAccessKey, sessionToken, prefix = '', ...location } = body;
  const folder = prefix === '' || prefix.endsWith('/') ? prefix : `${prefix}/`;
  return {
    location: { ...storePlace(location), prefix: folder },
    credentials: { accessKeyId, secretAccessKey, sessionToken },
  };
}
