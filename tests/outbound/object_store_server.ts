// An S3-compatible server for tests: s3rver, in this process, with its own port and directory.

import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

// It has no types.
const S3rver: new (
  options: object,
) => {
  run(): Promise<{ readonly port: number }>;
  close(): Promise<void>;
} = createRequire(import.meta.url)('s3rver');

export interface ObjectStoreServer {
  /** `http://127.0.0.1:<port>`, for path style. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  close(): Promise<void>;
}

export async function startObjectStore(bucket = 'bucket'): Promise<ObjectStoreServer> {
  const directory = await mkdtemp(join(tmpdir(), 'tabularium-s3-'));
  const server = new S3rver({
    port: 0,
    address: '127.0.0.1',
    silent: true,
    directory,
    resetOnClose: true,
    configureBuckets: [{ name: bucket, configs: [] }],
  });
  const { port } = await server.run();
  return {
    endpoint: `http://127.0.0.1:${port}`,
    bucket,
    // The only credentials that s3rver accepts.
    accessKeyId: 'S3RVER',
    secretAccessKey: 'S3RVER',
    close: async () => {
      await server.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
