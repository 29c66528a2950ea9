// The commands that work without a server, and the one that asks a server that runs. main.ts adds `serve` and those that need its parts.
import { auditVerifyCommand } from './audit.ts';
import { backupVerifyCommand } from './backup.ts';
import { backupServerCommand } from './backup_server.ts';
import type { Command } from './command.ts';
import { rotateCommand } from './secrets.ts';

/** Those that do not start a server. */
export const offlineCommands: readonly Command[] = [
  rotateCommand,
  auditVerifyCommand,
  backupServerCommand,
  backupVerifyCommand,
];
