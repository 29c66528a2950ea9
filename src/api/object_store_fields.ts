// An object store in a body: its address and its credentials. Shared by loads, exports and backups.
import { strictObject, Type } from '../standard/type.ts';
import { noNul } from './fields.ts';

export const defaultRegion = 'us-east-1';

const key = (maxLength: number, description: string) =>
  Type.String({ minLength: 1, maxLength, pattern: '^[\\u0021-\\u007e]+$', writeOnly: true, description });

/** `hosts`: the name of the setting that lists the allowed endpoints. */
export const storeFields = (hosts: string) => ({
  endpoint: Type.String({
    maxLength: 512,
    pattern: '^https?://[^/?#@]+/?$',
    description: `The server, such as \`https://s3.eu-central-1.amazonaws.com\`; the setting \`${hosts}\` must allow its host.`,
  }),
  region: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9-]{1,64}$', default: defaultRegion })),
  bucket: Type.String({ maxLength: 255, pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*$' }),
  pathStyle: Type.Optional(
    Type.Boolean({
      default: true,
      description:
        'Whether the bucket is part of the path, which every server supports; `false`: part of the host name.',
    }),
  ),
});

export const storeKeys = {
  accessKeyId: key(256, 'Never returned, like the other keys.'),
  secretAccessKey: key(1024, 'Stored encrypted until the task has ended.'),
  sessionToken: Type.Optional(key(8192, 'Stored like the secret key.')),
};

const folderTitles = { exportHosts: 'ObjectStoreTarget', loadHosts: 'ObjectStoreSource' } as const;

/** The target of files, below a prefix. `hosts`: the name of the setting that lists the allowed endpoints. */
export const storeFolder = (hosts: keyof typeof folderTitles) =>
  strictObject(
    {
      ...storeFields(hosts),
      prefix: Type.Optional(
        Type.String({
          maxLength: 512,
          pattern: noNul,
          default: '',
          description: 'The prefix of all keys, separated by a `/`.',
        }),
      ),
      ...storeKeys,
    },
    {
      title: folderTitles[hosts],
      description: 'A prefix in a bucket of an object store with the S3 protocol.',
    },
  );
