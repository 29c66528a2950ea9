// The settings of the place of results and files; part of the table in server_settings.ts.
import type { Setting } from './setting_type.ts';

const section = 'Data';

export const fileStoreSettings = {
  fileStore: {
    section,
    type: 'string',
    default: '',
    doc: 'Where results, uploads and exports to download are stored once they are complete: `s3://bucket/prefix`; if empty, the data directory. What is still computed or received is in the data directory until then.',
  },
  fileStoreEndpoint: {
    section,
    type: 'string',
    default: '',
    doc: 'The server of `fileStore`, such as `https://s3.example.com`; by default that of AWS.',
  },
  fileStoreRegion: {
    section,
    type: 'string',
    default: 'us-east-1',
    doc: 'The region of `fileStore`.',
  },
  fileStoreAccessKeyId: {
    section,
    type: 'string',
    only: 'variable',
    default: '',
    doc: 'The id of the access key of `fileStore`.',
  },
  fileStoreSecretAccessKey: {
    section,
    type: 'string',
    only: 'variable',
    default: '',
    doc: 'The secret of that access key.',
  },
} as const satisfies Readonly<Record<string, Setting>>;
