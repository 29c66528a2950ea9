// The settings of backups and the flags of the backup commands; part of the table in server_settings.ts.
import type { Setting } from './setting_type.ts';

const verifyFlag = { section: 'Commands', only: 'flag', command: 'backup verify' } as const;
const targetCommands = ['backup verify', 'backup server', 'restore server', 'check'] as const;
const targetFlag = { section: 'Commands', only: 'flag', command: targetCommands } as const;
const section = 'Queries and tasks';

export const backupSettings = {
  backupDirectories: {
    section,
    type: 'string',
    default: '',
    doc: 'The directories that `backup` may write to and `restore` may read from: absolute paths, separated by `:` (on Windows `;`). None of them may contain, or be contained in, the data directory or one of `loadDirectories`. Everybody who may read a catalog or a database may back it up there. If empty, no directory is allowed.',
  },
  backupPassphrase: {
    section,
    type: 'string',
    only: 'variable',
    default: '',
    doc: 'Encrypts the keys in a backup of the whole server (the key of the secrets, the token of `root`); `restore server` requires the same passphrase. Choose a long one and store it separately from the backups. Without it, the keys are not encrypted in the backup, and backups of the server can only be written to directories.',
  },
} as const satisfies Readonly<Record<string, Setting>>;

export const backupCommandSettings = {
  backupId: {
    section: 'Commands',
    only: 'flag',
    command: ['backup verify', 'restore server', 'check'],
    type: 'string',
    default: '',
    doc: 'For `backup verify`: verifies this backup only, instead of all. For `restore server` and `check --repair=backup`: restores this backup, instead of the newest.',
  },
  backupPlace: {
    section: 'Commands',
    only: 'flag',
    command: 'check',
    type: 'string',
    default: '',
    doc: 'For `check --repair=backup`: the directory, or `s3://bucket/prefix` with the credentials of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, that contains backups of the server or of the catalog; by default all targets recorded in the metadata store.',
  },
  sweep: {
    ...verifyFlag,
    type: 'boolean',
    default: false,
    doc: 'For `backup verify`: deletes files that belong to no backup, if all files in their folder are older than a day.',
  },
  url: {
    section: 'Commands',
    only: 'flag',
    command: 'backup server',
    type: 'string',
    default: '',
    doc: 'For `backup server`: the URL of the server, such as `http://127.0.0.1:8030`; by default derived from `host`, `port` and `tlsCertFile`.',
  },
  token: {
    section: 'Commands',
    only: 'variable',
    type: 'string',
    default: '',
    doc: 'For `backup server`: the token to authenticate with; by default that of `root`, read from the data directory while a server runs on it.',
  },
  storeEndpoint: {
    ...targetFlag,
    type: 'string',
    default: '',
    doc: 'For a target `s3://bucket/prefix`: the server, such as `https://s3.example.com`; by default that of AWS.',
  },
  storeRegion: {
    ...targetFlag,
    type: 'string',
    default: 'us-east-1',
    doc: 'For a target `s3://bucket/prefix`: the region.',
  },
} as const satisfies Readonly<Record<string, Setting>>;
