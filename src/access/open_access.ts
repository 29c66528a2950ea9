// Makes the parts of access/ and tells them of one another; what they need of rooms above is handed in.
import { randomUUID } from 'node:crypto';
import type { Observe } from '../observe/observations.ts';
import { type Store, setting } from '../store/store.ts';
import { Access, type AccessOptions } from './access.ts';
import { AuditTrail } from './audit.ts';
import { Directory } from './directory.ts';
import { Grants } from './grants.ts';
import { OidcUsers, type OidcUsersOptions } from './oidc_users.ts';
import { Tokens } from './tokens.ts';

export interface OpenAccessOptions
  extends Pick<AccessOptions, 'rootToken' | 'passwords' | 'failedLogins' | 'steps' | 'ownsWithin'>,
    Pick<OidcUsersOptions, 'oidc' | 'makeUser'> {
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
  return { access, directory, audit, grants: new Grants(parts), tokens: new Tokens(parts) };
}

export type OpenedAccess = Awaited<ReturnType<typeof openAccess>>;
