// The commands that work on a data directory while no server does. main.ts adds `serve`.
import { auditVerifyCommand } from './audit.ts';
import type { Command } from './command.ts';
import { rotateCommand } from './secrets.ts';

/** Those that open the store themselves. */
export const offlineCommands: readonly Command[] = [rotateCommand, auditVerifyCommand];
