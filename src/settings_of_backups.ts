// The settings of backups, and the flags of the command that looks at them, as a part of the table of settings.
import type { Setting } from './setting.ts';

const ofVerify = { section: 'Commands', only: 'flag', command: 'backup verify' } as const;
const section = 'Queries and tasks';

export const backupSettings = {
  backupDirectories: {
    section,
    type: 'string',
    default: '',
    doc: 'The directories that `backup` may write to and `restore` read from: absolute, parted by `:` (on Windows `;`), none of them in or around the data directory or one of `loadDirectories`. Everybody who may read a catalog or a database may back it up there. Without it, no directory is taken.',
  },
} as const satisfies Readonly<Record<string, Setting>>;

export const backupCommandSettings = {
  backupId: {
    ...ofVerify,
    type: 'string',
    default: '',
    doc: 'For `backup verify`: the one backup to look at, instead of all that are there.',
  },
  sweep: {
    ...ofVerify,
    type: 'boolean',
    default: false,
    doc: 'For `backup verify`: takes away the files that no backup names, where all of their folder are older than a day.',
  },
  storeEndpoint: {
    ...ofVerify,
    type: 'string',
    default: '',
    doc: 'For `backup verify` of `s3://bucket/prefix`: the server, as `https://s3.example.com`; by default that of AWS.',
  },
  storeRegion: {
    ...ofVerify,
    type: 'string',
    default: 'us-east-1',
    doc: 'For `backup verify` of `s3://bucket/prefix`: the region.',
  },
} as const satisfies Readonly<Record<string, Setting>>;
