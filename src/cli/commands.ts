// The commands that need no parts of the server. main.ts adds `serve` and the others.
import { auditVerifyCommand } from './audit.ts';
import { backupVerifyCommand } from './backup.ts';
import { backupServerCommand } from './backup_server.ts';
import type { Command } from './command.ts';
import { rotateCommand } from './secrets.ts';

export const offlineCommands: readonly Command[] = [
  rotateCommand,
  auditVerifyCommand,
  backupServerCommand,
  backupVerifyCommand,
];
