// What `doctor` checks with parts of the server that only main.ts knows.
import type { Settings } from '../../settings/read_settings.ts';
import type { Command } from '../command.ts';
import type { ConfinementReport } from './machine_checks.ts';

export interface DoctorParts {
  readonly check: Command;
  /** Throws OperatorError if certificate, key or host are wrong. */
  readonly requireTransport: (settings: Settings) => Promise<void>;
  readonly confinementOf: (settings: Settings) => Promise<readonly ConfinementReport[]>;
}
