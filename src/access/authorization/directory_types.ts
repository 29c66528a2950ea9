// The records of the directory, and how they are stored.
import type { Selectable } from 'kysely';
import { parseScopes, type Scope } from '../../model/principal.ts';
import type { Privilege } from '../../model/privileges.ts';
import type { GrantsTable, TokensTable } from '../../store/schema.ts';

export const rootUserId = 'root';

export interface UserSpec {
  readonly comment?: string;
  readonly properties?: Readonly<Record<string, string>>;
  readonly disabled?: boolean;
  /** PHC string. */
  readonly passwordHash?: string;
  /** The user's identity at an identity provider. */
  readonly identity?: { readonly providerId: string; readonly subject: string };
}

export interface RoleSpec {
  readonly comment?: string;
  readonly properties?: Readonly<Record<string, string>>;
}

export interface User {
  readonly id: string;
  readonly name: string;
  readonly spec: UserSpec;
}

export interface Role {
  readonly id: string;
  readonly name: string;
}

export interface Grant {
  readonly grantId: string;
  readonly granteeId: string;
  readonly privilege: Privilege;
  readonly onId: string;
  /** Ids from the root to `onId`. */
  readonly path: readonly string[];
  readonly createdAt: number;
  readonly createdBy: string;
}

/** The identity provider by which a token was created, and the ids of the roles that it assigned at that time. */
export interface TokenSignIn {
  readonly provider: string;
  readonly roles: readonly string[];
}

export interface Token {
  readonly tokenId: string;
  readonly userId: string;
  readonly name: string;
  readonly digest: string;
  readonly scopes: readonly Scope[] | undefined;
  readonly signIn: TokenSignIn | undefined;
  readonly expiresAt: number | undefined;
  lastUsedAt: number | undefined;
}

export function grantOf(row: Omit<Selectable<GrantsTable>, 'object_id'>): Grant {
  return {
    grantId: row.grant_id,
    granteeId: row.grantee_id,
    privilege: row.privilege as Privilege,
    onId: row.on_id,
    path: JSON.parse(row.path) as string[],
    createdAt: row.created_at,
    createdBy: row.created_by,
  };
}

export function tokenOf(row: Selectable<TokensTable>): Token {
  return {
    tokenId: row.token_id,
    userId: row.user_id,
    name: row.name,
    digest: row.digest,
    scopes: row.scopes === null ? undefined : parseScopes(row.scopes),
    signIn: row.sign_in === null ? undefined : (JSON.parse(row.sign_in) as TokenSignIn),
    expiresAt: row.expires_at ?? undefined,
    lastUsedAt: row.last_used_at ?? undefined,
  };
}
