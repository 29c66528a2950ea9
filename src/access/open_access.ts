// Makes the parts of access/ and tells them of one another; what they need of rooms above is handed in.
import { randomUUID } from 'node:crypto';
import type { Observe } from '../observe/observations.ts';
import { type Store, setting } from '../store/store.ts';
import { Access, type AccessOptions } from './access.ts';
import { AuditTrail } from './audit.ts';
import { findAudit, listAudit, verifyAudit } from './audit_reading.ts';
import { Directory } from './directory.ts';
import { Grants } from './grants.ts';
import { IdentityProviders } from './identity_providers.ts';
import type { Oidc } from './oidc.ts';
import { OidcUsers, type OidcUsersOptions } from './oidc_users.ts';
import type { Secrets } from './secrets.ts';
import { Tokens } from './tokens.ts';

export interface OpenAccessOptions
  extends Pick<AccessOptions, 'rootToken' | 'passwords' | 'failedLogins' | 'steps' | 'ownsWithin'>,
    Pick<OidcUsersOptions, 'makeUser'> {
  readonly oidc: Oidc;
  readonly secrets: Secrets;
  readonly store: Store;
  readonly observe: Observe;
  readonly auditKey: Uint8Array;
  readonly auditRetentionDays: number;
}

export async function openAccess(options: OpenAccessOptions) {
  const { store, observe, oidc, makeUser, auditKey: key, auditRetentionDays: retentionDays } = options;
  const directory = new Directory();
  await directory.load(store);
  const serverId = await setting(store, 'server_id', randomUUID);
  const audit = new AuditTrail({ store, observe, key, retentionDays, serverId });
  const parts = { store, directory, trail: audit, observe };
  const access = new Access({ ...options, directory, oidc: new OidcUsers({ oidc, directory, makeUser }) });
  const auditReader = {
    list: async (filter: Parameters<typeof listAudit>[1]) => {
      await audit.flush();
      return listAudit(store, filter);
    },
    find: (eventId: string) => findAudit(store, eventId),
    verify: () => verifyAudit(store, key),
  };
  const identityProviders = new IdentityProviders({ store, directory, oidc, secrets: options.secrets });
  await identityProviders.changed();
  const { passwords, failedLogins } = options;
  return {
    access,
    directory,
    audit,
    auditReader,
    grants: new Grants(parts),
    tokens: new Tokens(parts),
    identityProviders,
    passwords,
    failedLogins,
  };
}

export type OpenedAccess = Awaited<ReturnType<typeof openAccess>>;
