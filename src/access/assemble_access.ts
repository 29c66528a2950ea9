// Creates and connects the parts of access/. What they need from higher layers is passed in.
import { randomUUID } from 'node:crypto';
import type { Observe } from '../observe/observations.ts';
import type { HostAllowlist } from '../outbound/host_allowlist.ts';
import { guardedFetch } from '../outbound/http_client.ts';
import { getOrCreateSetting, type Store } from '../store/store.ts';
import type { AuditJournal } from './audit/audit_journal.ts';
import { AuditTrail } from './audit/audit_log.ts';
import { findAudit, listAudit, serverIdSetting, verifyAudit } from './audit/audit_reader.ts';
import { Authenticator, type AuthenticatorOptions } from './authentication/authenticator.ts';
import { IdentityProviders } from './authentication/identity_providers.ts';
import { Oidc } from './authentication/oidc.ts';
import { OidcUsers, type OidcUsersOptions } from './authentication/oidc_users.ts';
import { Passwords } from './authentication/passwords.ts';
import { Tokens } from './authentication/tokens.ts';
import { Directory } from './authorization/directory.ts';
import { Grants } from './authorization/grants.ts';
import { IdempotencyKeys } from './idempotency_keys.ts';
import type { Secrets } from './secrets/secrets.ts';

export interface AssembleAccessOptions
  extends Pick<AuthenticatorOptions, 'rootToken' | 'failedLogins' | 'resolvePath' | 'ownsDescendant' | 'ownersOf'>,
    Pick<OidcUsersOptions, 'makeUser'> {
  readonly store: Store;
  readonly observe: Observe;
  readonly secrets: Secrets;
  readonly auditRetentionDays: number;
  readonly journal: AuditJournal;
  readonly identityProviderHosts: HostAllowlist;
}

/** The key that signs the events of the audit trail. */
export const auditKeyOf = (secrets: Secrets): Buffer => secrets.derive('audit');

export async function assembleAccess(options: AssembleAccessOptions) {
  const { store, observe, secrets, makeUser, failedLogins, identityProviderHosts } = options;
  const { auditRetentionDays: retentionDays } = options;
  const directory = new Directory();
  await directory.load(store);
  const serverId = await getOrCreateSetting(store, serverIdSetting, randomUUID);
  const key = auditKeyOf(secrets);
  const audit = new AuditTrail({ store, observe, key, retentionDays, serverId, journal: options.journal });
  const parts = { store, directory, trail: audit, observe };
  const passwords = new Passwords();
  const oidc = new Oidc({
    observe,
    fetch: guardedFetch(identityProviderHosts),
    changed: () => directory.credentialsChanged(),
  });
  const identityProviders = new IdentityProviders({ store, directory, oidc, secrets, hosts: identityProviderHosts });
  await identityProviders.reload();
  const oidcUsers = new OidcUsers({ oidc, directory, makeUser });
  return {
    access: new Authenticator({ ...options, directory, passwords, oidc: oidcUsers }),
    directory,
    audit,
    auditReader: {
      list: async (filter: Parameters<typeof listAudit>[1]) => {
        await audit.flush();
        return listAudit(store, filter);
      },
      find: (eventId: string) => findAudit(store, eventId),
      verify: () => verifyAudit(store, key),
    },
    grants: new Grants(parts),
    tokens: new Tokens(parts),
    idempotencyKeys: new IdempotencyKeys(store),
    identityProviders,
    passwords,
    failedLogins,
    oidc,
  };
}

export type AssembledAccess = Awaited<ReturnType<typeof assembleAccess>>;
