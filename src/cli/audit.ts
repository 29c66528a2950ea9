// The command `audit verify`: goes over the audit trail of a stopped server and says whether a line is missing, was changed or put
// in. How that is found is access/audit/audit_reader.ts.

import { auditKeyOf } from '../access/assemble_access.ts';
import { verifyAudit } from '../access/audit/audit_reader.ts';
import { type Settings, SettingsError } from '../settings/read_settings.ts';
import { StoreInUse } from '../store/sqlite.ts';
import type { Command } from './command.ts';
import { secretsOf, withStore } from './data_directory.ts';

export const auditVerifyCommand: Command = {
  name: 'audit verify',
  doc: 'Goes over the audit trail of a stopped server: is every line there, and as it was written? Ends with 1 where one is not.',
  run: async (settings, say) => {
    const { eventCount, faults, heads } = await verdictOn(settings);
    say(`${eventCount} ${eventCount === 1 ? 'line' : 'lines'}.`);
    for (const { serverId, sequence, digest } of heads)
      say(`server ${serverId} ends with line ${sequence}, digest ${digest}`);
    for (const { serverId, sequence, fault } of faults) say(`FAULT: server ${serverId}, line ${sequence}: ${fault}`);
    if (faults.length > 0) process.exitCode = 1;
    else
      say(
        'Every line is there, as it was written. Keep the digest elsewhere: an older copy of the store ends with another.',
      );
  },
};

async function verdictOn(settings: Settings) {
  try {
    return await withStore(settings, async (store, dataDirectory) => {
      const secrets = await secretsOf(settings, store, dataDirectory);
      return verifyAudit(store, auditKeyOf(secrets));
    });
  } catch (error) {
    if (!(error instanceof StoreInUse)) throw error;
    throw new SettingsError(`${error.message}; stop the server, or ask it: POST /api/v2/audit_events/verify`);
  }
}
