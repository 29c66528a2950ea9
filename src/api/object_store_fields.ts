// An object store in a body: its address and its credentials. Shared by loads, exports and backups.
import { Type } from '../standard/type.ts';
import { noNul } from './fields.ts';

export const defaultRegion = 'us-east-1';

const key = (maxLength: number, description: string) =>
  Type.String({ minLength: 1, maxLength, pattern: '^[\\u0021-\\u007e]+$', writeOnly: true, description });

/** `hosts`: the name of the setting that lists the allowed endpoints. */
export const storeFields = (hosts: string) => ({
  endpoint: Type.String({
    maxLength: 512,
    pattern: '^https?://[^/?#@]+/?$',
    description: `The server, as \`https://s3.eu-central-1.amazonaws.com\`, on a host of the setting \`${hosts}\`.`,
  }),
  region: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9-]{1,64}$', default: defaultRegion })),
  bucket: Type.String({ maxLength: 255, pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*$' }),
  pathStyle: Type.Optional(
    Type.Boolean({
      default: true,
      description: 'The bucket is part of the path, which every server supports; `false`: of the host name.',
    }),
  ),
});

export const storeKeys = {
  accessKeyId: key(256, 'Never shown, as those that follow.'),
  secretAccessKey: key(1024, 'Kept encrypted until the task has ended.'),
  sessionToken: Type.Optional(key(8192, 'As the secret key.')),
};

const folderTitles = { exportHosts: 'ObjectStoreTarget', loadHosts: 'ObjectStoreSource' } as const;

/** The target of files, below a prefix. `hosts`: the name of the setting that lists the allowed endpoints. */
export const storeFolder = (hosts: keyof typeof folderTitles) =>
  Type.Object(
    {
      ...storeFields(hosts),
      prefix: Type.Optional(
        Type.String({
          maxLength: 512,
          pattern: noNul,
          default: '',
          description: 'Prefix of all keys, separated by a `/`.',
        }),
      ),
      ...storeKeys,
    },
    {
      title: folderTitles[hosts],
      additionalProperties: false,
      description: 'A part of a bucket, in a store that speaks S3.',
    },
  );
