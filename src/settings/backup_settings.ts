// The settings of backups, and the flags of the command that looks at them, as a part of the table of settings.
import type { Setting } from './setting_type.ts';

const ofVerify = { section: 'Commands', only: 'flag', command: 'backup verify' } as const;
const places = ['backup verify', 'backup server', 'restore server', 'check'] as const;
const ofPlaces = { section: 'Commands', only: 'flag', command: places } as const;
const section = 'Queries and tasks';

export const backupSettings = {
  backupDirectories: {
    section,
    type: 'string',
    default: '',
    doc: 'The directories that `backup` may write to and `restore` read from: absolute, parted by `:` (on Windows `;`), none of them in or around the data directory or one of `loadDirectories`. Everybody who may read a catalog or a database may back it up there. Without it, no directory is taken.',
  },
  backupPassphrase: {
    section,
    type: 'string',
    only: 'variable',
    default: '',
    doc: 'Encrypts the keys in a backup of the whole server (the key of the secrets, the token of `root`); `restore server` needs the same. Choose a long one and keep it apart from the backups. Without it the keys are plain in the backup, and such backups go to directories only.',
  },
} as const satisfies Readonly<Record<string, Setting>>;

export const backupCommandSettings = {
  backupId: {
    section: 'Commands',
    only: 'flag',
    command: ['backup verify', 'restore server', 'check'],
    type: 'string',
    default: '',
    doc: 'For `backup verify`: the one backup to look at, instead of all that are there. For `restore server` and `check --repair=backup`: the one to restore, instead of the newest.',
  },
  backupPlace: {
    section: 'Commands',
    only: 'flag',
    command: 'check',
    type: 'string',
    default: '',
    doc: 'For `check --repair=backup`: the directory, or `s3://bucket/prefix` with the credentials of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, that has backups of the server or of the catalog; by default all places that the metadata store records.',
  },
  sweep: {
    ...ofVerify,
    type: 'boolean',
    default: false,
    doc: 'For `backup verify`: takes away the files that no backup names, where all of their folder are older than a day.',
  },
  url: {
    section: 'Commands',
    only: 'flag',
    command: 'backup server',
    type: 'string',
    default: '',
    doc: 'For `backup server`: where the server is, as `http://127.0.0.1:8030`; by default where `host`, `port` and `tlsCertFile` say.',
  },
  token: {
    section: 'Commands',
    only: 'variable',
    type: 'string',
    default: '',
    doc: 'For `backup server`: the token that it authenticates with; by default that of `root`, read from the data directory while a server runs on it.',
  },
  storeEndpoint: {
    ...ofPlaces,
    type: 'string',
    default: '',
    doc: 'For a place `s3://bucket/prefix`: the server, as `https://s3.example.com`; by default that of AWS.',
  },
  storeRegion: {
    ...ofPlaces,
    type: 'string',
    default: 'us-east-1',
    doc: 'For a place `s3://bucket/prefix`: the region.',
  },
} as const satisfies Readonly<Record<string, Setting>>;
