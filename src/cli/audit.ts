// The command `audit verify`: verifies the audit trail of a stopped server. See access/audit/audit_reader.ts for the verification.
import { auditKeyOf } from '../access/assemble_access.ts';
import { verifyAudit } from '../access/audit/audit_reader.ts';
import { type Settings, SettingsError } from '../settings/read_settings.ts';
import { StoreInUse } from '../store/store_errors.ts';
import type { Command } from './command.ts';
import { secretsOf, withStore } from './data_directory.ts';

export const verifyAuditTrail: Command['run'] = async (settings, print) => {
  const { eventCount, faults, heads } = await verifyTrail(settings);
  print(`${eventCount} ${eventCount === 1 ? 'line' : 'lines'}.`);
  for (const { serverId, sequence, digest } of heads)
    print(`server ${serverId} ends with line ${sequence}, digest ${digest}`);
  for (const { serverId, sequence, fault } of faults) print(`FAULT: server ${serverId}, line ${sequence}: ${fault}`);
  if (faults.length > 0) process.exitCode = 1;
  else
    print(
      'The audit trail is complete and unchanged. Store the digest elsewhere: an older copy of the store ends with another one.',
    );
  return { eventCount, heads, faults };
};

async function verifyTrail(settings: Settings) {
  try {
    return await withStore(settings, async ({ store }, dataDirectory) => {
      const secrets = await secretsOf(settings, store, dataDirectory);
      return verifyAudit(store, auditKeyOf(secrets));
    });
  } catch (error) {
    if (!(error instanceof StoreInUse)) throw error;
    throw new SettingsError(`${error.message}; stop the server, or send POST /api/v2/audit_events/verify to it`);
  }
}
