// The settings of directories and hosts that the server may access; part of the table in server_settings.ts.
import { type Setting, TiB } from './setting_type.ts';

const section = 'Queries and tasks';

export const outboundSettings = {
  loadDirectories: {
    section,
    type: 'string',
    default: '',
    doc: 'The directories that `load` may read files from, by `path`: absolute paths, separated by `:` (on Windows `;`). None of them may contain, or be contained in, the data directory. Everybody who may write a table may load their files. If empty, no path is allowed.',
  },
  loadHosts: {
    section,
    type: 'string',
    default: '',
    doc: 'The hosts that `load` (by `url` and `s3`) and `restore` may read from, separated by commas: `host`, `host:port`, `*.host` or `*`. Private addresses are allowed only for hosts that are listed by their exact name. If empty, no host is allowed.',
  },
  loadFetchSeconds: {
    section,
    type: 'integer',
    min: 1,
    max: 604_800,
    default: 21_600,
    doc: 'The maximum time for fetching one file, for a load or from a backup.',
  },
  loadFileBytesMax: {
    section,
    type: 'bytes',
    min: 1,
    max: 1024 * TiB,
    default: TiB,
    doc: 'The maximum size of a file to load, uncompressed, and of a file of a backup to restore.',
  },
  identityProviderHosts: {
    section,
    type: 'string',
    default: '*',
    doc: 'The allowed hosts of identity providers, separated by commas: `host`, `host:port`, `*.host` or `*`. Private addresses are allowed only for hosts that are listed by their exact name.',
  },
  clusterHosts: {
    section,
    type: 'string',
    default: '',
    doc: 'The hosts of the servers of clusters that can be registered as backends, separated by commas: `host`, `host:port`, `*.host` or `*`. Private addresses are allowed only for hosts that are listed by their exact name. If empty, no server can be registered.',
  },
  webhookHosts: {
    section,
    type: 'string',
    default: '',
    doc: 'The hosts that webhooks of tasks may be sent to, separated by commas: `host`, `host:port`, `*.host` or `*`. Private addresses are allowed only for hosts that are listed by their exact name. If empty, no webhooks are allowed.',
  },
} as const satisfies Readonly<Record<string, Setting>>;
