// The settings of what the server reaches outside of its data, as a part of the table of settings: directories and hosts that are
// loaded from, hosts that are told of things.
import { type Setting, TiB } from './setting_type.ts';

const section = 'Queries and tasks';

export const outboundSettings = {
  loadDirectories: {
    section,
    type: 'string',
    default: '',
    doc: 'The directories that `load` may read files from, by `path`: absolute, parted by `:` (on Windows `;`), none of them in or around the data directory. Everybody who may write a table may load what is in them. Without it, no path is taken.',
  },
  loadHosts: {
    section,
    type: 'string',
    default: '',
    doc: 'The hosts that `load` may fetch from, by `url` and `s3`, and `restore`, separated by commas: `host`, `host:port`, `*.host` or `*`. Private addresses only where the host is listed by its very name. Without it, nothing is fetched.',
  },
  loadFetchSeconds: {
    section,
    type: 'integer',
    min: 1,
    max: 604_800,
    default: 21_600,
    doc: 'How long the fetching of one file may take, for a load or of a backup.',
  },
  loadFileBytesMax: {
    section,
    type: 'bytes',
    min: 1,
    max: 1024 * TiB,
    default: TiB,
    doc: 'The largest file that is loaded, unpacked; and the largest of a backup that is restored.',
  },
  identityProviderHosts: {
    section,
    type: 'string',
    default: '*',
    doc: 'Hosts that identity providers may be on, separated by commas: `host`, `host:port`, `*.host` or `*`. Private addresses only of hosts that are listed by their very name.',
  },
  webhookHosts: {
    section,
    type: 'string',
    default: '',
    doc: 'Hosts that notices of the ends of tasks may be sent to, separated by commas: `host`, `host:port`, `*.host` or `*`. Private addresses only of hosts that are listed by their very name. None: no notices.',
  },
} as const satisfies Readonly<Record<string, Setting>>;
