// Creates and connects the parts of access/. What they need from higher layers is passed in.
import type { Observe } from '../observe/observations.ts';
import type { HostAllowlist } from '../outbound/host_allowlist.ts';
import { guardedFetch } from '../outbound/http_client.ts';
import type { ChangeFeed } from '../store/changes/change_feed.ts';
import type { LeaseHolder } from '../store/leases.ts';
import type { Store } from '../store/store.ts';
import type { AuditJournal } from './audit/audit_journal.ts';
import { AuditTrail } from './audit/audit_log.ts';
import { findAudit, listAudit, verifyAudit } from './audit/audit_reader.ts';
import { Authenticator, type AuthenticatorOptions } from './authentication/authenticator.ts';
import { ConsoleTokens } from './authentication/console_tokens.ts';
import { IdentityProviders } from './authentication/identity_providers.ts';
import { Oidc } from './authentication/oidc.ts';
import { OidcSignIn } from './authentication/oidc_sign_in.ts';
import { OidcUsers, type OidcUsersOptions } from './authentication/oidc_users.ts';
import { Passwords } from './authentication/passwords.ts';
import { SignInLinks } from './authentication/sign_in_links.ts';
import { Tokens } from './authentication/tokens.ts';
import { Directory } from './authorization/directory.ts';
import { Grants } from './authorization/grants.ts';
import { RoleMembers } from './authorization/role_members.ts';
import { IdempotencyKeys } from './idempotency_keys.ts';
import type { Secrets } from './secrets/secrets.ts';

/** The key that signs the events of the audit trail. */
export const auditKeyOf = (secrets: Secrets): Buffer => secrets.derive('audit');

interface AuditOptions {
  readonly store: Store;
  readonly serverId: string;
  readonly observe: Observe;
  readonly secrets: Secrets;
  readonly journal: AuditJournal;
  readonly settings: { readonly auditRetentionDays: number };
}

/** The audit trail, which every part that changes something writes. */
export function assembleAudit({ store, serverId, observe, secrets, journal, settings }: AuditOptions) {
  const key = auditKeyOf(secrets);
  const audit = new AuditTrail({ store, observe, key, retentionDays: settings.auditRetentionDays, serverId, journal });
  const auditReader = {
    list: async (filter: Parameters<typeof listAudit>[1]) => {
      await audit.flush();
      return listAudit(store, filter);
    },
    find: (eventId: string) => findAudit(store, eventId),
    verify: () => verifyAudit(store, key),
  };
  return { audit, auditReader };
}

/** What access needs of the catalog. */
interface Objects {
  readonly findPrefix: AuthenticatorOptions['resolvePath'];
  readonly ownsDescendant: AuthenticatorOptions['ownsDescendant'];
  readonly ancestorsOfOwned: AuthenticatorOptions['ancestorsOfOwned'];
  readonly findByIdsWithDropped: AuthenticatorOptions['ownersOf'];
  readonly latestId: AuthenticatorOptions['latestId'];
}

type Visitor = Parameters<OidcUsersOptions['makeUser']>[0];

export interface AssembleAccessOptions extends Pick<AuthenticatorOptions, 'rootToken' | 'failedLogins'> {
  readonly store: Store;
  readonly changes: ChangeFeed;
  readonly holder: LeaseHolder;
  readonly observe: Observe;
  readonly secrets: Secrets;
  readonly audit: AuditTrail;
  readonly catalog: Objects;
  readonly identityProviderHosts: HostAllowlist;
  /** Creates the user of a visitor; see `OidcUsersOptions`. */
  readonly createUser: (
    visitor: Visitor,
    known: { readonly directory: Directory; readonly identityProviders: IdentityProviders },
  ) => ReturnType<OidcUsersOptions['makeUser']>;
}

export async function assembleAccess(options: AssembleAccessOptions) {
  const { store, changes, holder, observe, secrets, audit, catalog, rootToken, failedLogins, identityProviderHosts } =
    options;
  const directory = new Directory();
  await directory.load(store);
  const parts = { store, changes, directory, trail: audit, observe };
  const passwords = new Passwords();
  const fetchProvider = guardedFetch(identityProviderHosts);
  const oidc = new Oidc({
    observe,
    fetch: fetchProvider,
    changed: () => directory.credentialsChanged(),
  });
  const identityProviders = new IdentityProviders({ store, directory, oidc, secrets, hosts: identityProviderHosts });
  await identityProviders.reload();
  const makeUser = (visitor: Visitor) => options.createUser(visitor, { directory, identityProviders });
  const oidcUsers = new OidcUsers({ oidc, directory, makeUser });
  const tokens = new Tokens(parts);
  const signInLinks = new SignInLinks();
  const oidcSignIn = new OidcSignIn({ observe, fetch: fetchProvider, providers: () => identityProviders.all() });
  const access = new Authenticator({
    rootToken,
    failedLogins,
    directory,
    passwords,
    oidc: oidcUsers,
    rolesOfProvider: (id) => identityProviders.rolesOf(id),
    resolvePath: (path) => catalog.findPrefix(path),
    ownsDescendant: (userId, objectId) => catalog.ownsDescendant(userId, objectId),
    ancestorsOfOwned: (userId) => catalog.ancestorsOfOwned(userId),
    ownersOf: (ids) => catalog.findByIdsWithDropped(ids),
    latestId: (id) => catalog.latestId(id),
  });
  const { authorizer } = access;
  changes.follow({ changed: (change) => directory.changed(change), reload: () => directory.reload(store) });
  changes.follow({
    changed: (change) => {
      if (change.kind === 'object' && change.deep) authorizer.pathsChanged();
    },
    reload: () => authorizer.pathsChanged(),
  });
  changes.follow({
    changed: (change) => identityProviders.changed(change),
    reload: () => identityProviders.reload(),
  });
  return {
    access,
    directory,
    grants: new Grants(parts),
    roleMembers: new RoleMembers(changes),
    tokens,
    signInLinks,
    oidcSignIn,
    consoleTokens: new ConsoleTokens({ links: signInLinks, oidc: oidcSignIn, oidcUsers, directory, tokens }),
    idempotencyKeys: new IdempotencyKeys(store, undefined, holder, observe),
    identityProviders,
    passwords,
    failedLogins,
    oidc,
  };
}

export type AssembledAudit = ReturnType<typeof assembleAudit>;
export type AssembledAccess = Awaited<ReturnType<typeof assembleAccess>>;
