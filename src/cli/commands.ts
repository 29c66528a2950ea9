// All commands that run on the machine of the server, with the parts of it that only main.ts knows.
import { auditVerifyCommand } from './audit.ts';
import { backupVerifyCommand } from './backup.ts';
import { backupServerCommand } from './backup_server.ts';
import type { CatalogChecks } from './check/catalog_checks.ts';
import { checkCommand } from './check/check.ts';
import type { Command } from './command.ts';
import { doctorCommand } from './doctor/doctor.ts';
import type { DoctorParts } from './doctor/doctor_parts.ts';
import { restoreServerCommand } from './restore_server.ts';
import { rotateCommand } from './secrets.ts';
import { type ServeOptions, serveCommand } from './serve.ts';
import { storeMigrateCommand } from './store_migrate/command.ts';
import type { MigrateOptions } from './store_migrate/migrate_store.ts';

export interface LocalParts
  extends ServeOptions,
    Omit<DoctorParts, 'check'>,
    Pick<CatalogChecks, 'checkCatalog'>,
    Pick<MigrateOptions, 'isLocalEngine'> {
  readonly loadChecks: () => Promise<CatalogChecks>;
}

export function localCommands(parts: LocalParts): readonly Command[] {
  const check = checkCommand(parts.loadChecks);
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
    rootTokenFileName: '',
    requireTransport: unused,
    confinementOf: unused,
    checkCatalog: unused,
    loadChecks: unused,
    isLocalEngine: () => false,
  });
