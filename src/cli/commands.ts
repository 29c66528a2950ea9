// All commands that run on the machine of the server, with the parts of it that only main.ts knows. What a command runs is loaded when it runs:
// help, completion and the commands that call a server need only what is written here.
import type { CatalogChecks } from './check/catalog_checks.ts';
import type { Command } from './command.ts';
import { doctorCommand } from './doctor/doctor.ts';
import type { DoctorParts } from './doctor/doctor_parts.ts';
import { type ServeOptions, serveCommand } from './serve.ts';
import type { MigrateOptions } from './store_migrate/migrate_store.ts';

export interface LocalParts
  extends ServeOptions,
    Omit<DoctorParts, 'check'>,
    Pick<CatalogChecks, 'checkCatalog'>,
    Pick<MigrateOptions, 'isLocalEngine'> {
  readonly loadChecks: () => Promise<CatalogChecks>;
}

export function localCommands(parts: LocalParts): readonly Command[] {
  const check = checkCommand(parts);
  return [
    serveCommand(parts),
    rotateCommand,
    auditVerifyCommand,
    backupServerCommand,
    backupVerifyCommand,
    check,
    doctorCommand({ ...parts, check }),
    restoreServerCommand(parts),
    storeMigrateCommand(parts),
  ];
}

const unused = () => Promise.reject(new Error('no command is run'));

/** For reading the commands without running them. */
export const describedLocally = (): readonly Command[] =>
  localCommands({
    start: unused,
    requireTransport: unused,
    confinementOf: unused,
    checkCatalog: unused,
    loadChecks: unused,
    isLocalEngine: () => false,
  });

const rotateCommand: Command = {
  name: 'secrets rotate',
  doc: 'Encrypts the secrets of a stopped server with a new key: a generated one, which replaces the one in the key file, or the one in `--new-key-file` or TABULARIUM_SECRET_KEY_NEW.',
  settings: ['dataDir', 'config', 'store', 'secretKey', 'secretKeyFile', 'secretKeyNew'],
  examples: ['tabularium secrets rotate', 'tabularium secrets rotate --new-key-file /etc/tabularium/key --json'],
  run: async (...given) => (await import('./secrets.ts')).rotateSecretsOfStore(...given),
};

const auditVerifyCommand: Command = {
  name: 'audit verify',
  doc: 'Verifies the audit trail of a stopped server: no event was added, changed or removed. Exits with 1 otherwise.',
  settings: ['dataDir', 'config', 'store', 'secretKey', 'secretKeyFile'],
  examples: ['tabularium audit verify', 'tabularium audit verify --data-dir /var/lib/tabularium --json'],
  run: async (...given) => (await import('./audit.ts')).verifyAuditTrail(...given),
};

const backupServerCommand: Command = {
  name: 'backup server',
  argument: 'target',
  doc: 'Requests a backup of the whole running server and waits for it: in a directory that its `backupDirectories` allow, or in `s3://bucket/prefix` with the credentials in AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. It authenticates with TABULARIUM_TOKEN, or with `root.token` of the data directory. Exits with 6 if it was taken without damaged catalogs.',
  settings: ['dataDir', 'config', 'store', 'host', 'port', 'token'],
  examples: [
    'tabularium backup server /var/backups/tabularium',
    'tabularium backup server s3://backups/warehouse --store-region eu-central-1',
  ],
  run: async (...given) => (await import('./backup_server.ts')).backUpServer(...given),
};

const backupVerifyCommand: Command = {
  name: 'backup verify',
  argument: 'target',
  doc: 'Verifies the backups in a directory, or in `s3://bucket/prefix` with the credentials in AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN: every file exists and is unchanged. Exits with 1 otherwise.',
  settings: ['config'],
  examples: [
    'tabularium backup verify /var/backups/tabularium',
    'tabularium backup verify s3://backups/warehouse --json',
  ],
  run: async (...given) => (await import('./backup.ts')).verifyBackupTarget(...given),
};

const checkCommand = ({ loadChecks }: Pick<LocalParts, 'loadChecks'>): Command => ({
  name: 'check',
  doc: 'Reads the metadata store and the catalogs of a stopped server: is every page and every block as it was written, does the store describe the tables that are there, and is nothing older than acknowledged work? Ends with 1 where something is wrong, and says what each `--repair` would lose.',
  settings: ['dataDir', 'config', 'store', 'secretKey', 'secretKeyFile'],
  examples: [
    'tabularium check',
    'tabularium check --catalog sales --repair=backup --backup-place /var/backups/tabularium',
  ],
  run: async (...given) => (await import('./check/check.ts')).checkWith(loadChecks)(...given),
});

const restoreServerCommand = ({ checkCatalog }: Pick<CatalogChecks, 'checkCatalog'>): Command => ({
  name: 'restore server',
  argument: 'target',
  doc: 'Restores a whole server from a backup in a directory, or in `s3://bucket/prefix` with the credentials in AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN: fills the data directory, which must be new or empty, verifies the digest of every file, and reads every catalog. TABULARIUM_BACKUP_PASSPHRASE decrypts the keys.',
  settings: ['dataDir', 'config', 'backupPassphrase'],
  examples: ['tabularium restore server /var/backups/tabularium --data-dir /var/lib/restored'],
  run: async (...given) => (await import('./restore_server.ts')).restoreServerWith({ checkCatalog })(...given),
});

const storeMigrateCommand = ({ isLocalEngine }: Pick<MigrateOptions, 'isLocalEngine'>): Command => ({
  name: 'store migrate',
  doc: 'Moves the metadata store of stopped servers from `--from` to `--to`, between SQLite and PostgreSQL, and compares all rows. Exits with 0 when the servers are to be started on the new store; with 1 if it could not be moved, and with 2 if a flag is wrong: then the old store is unchanged and in use. It can be repeated after it was interrupted.',
  settings: ['config', 'secretKey', 'secretKeyFile', 'secretKeyNew'],
  examples: [
    'tabularium store migrate --from sqlite:/var/lib/tabularium --to postgres://tabularium@db.example.com/tabularium',
  ],
  run: async (...given) => (await import('./store_migrate/command.ts')).migrateStoreWith({ isLocalEngine })(...given),
});
