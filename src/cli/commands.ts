// The commands that need no server, and those that work on a data directory while none does. main.ts adds `serve`.
import { auditVerifyCommand } from './audit.ts';
import { backupVerifyCommand } from './backup.ts';
import type { Command } from './command.ts';
import { rotateCommand } from './secrets.ts';

/** Those that do not start a server. */
export const offlineCommands: readonly Command[] = [rotateCommand, auditVerifyCommand, backupVerifyCommand];
