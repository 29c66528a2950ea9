// The records of the directory.

import type { Scope } from '../../model/principal.ts';
import type { Privilege } from '../../model/privileges.ts';

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
