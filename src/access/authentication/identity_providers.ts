// Loads the identity providers from the store and passes them to oidc.ts, which verifies their tokens. Client secrets are encrypted.

import type { Transaction } from 'kysely';
import type { SigningAlgorithm } from '../../model/signing_algorithms.ts';
import type { HostAllowlist } from '../../outbound/host_allowlist.ts';
import type { Change } from '../../store/changes/change.ts';
import type { Schema } from '../../store/schema.ts';
import type { Store } from '../../store/store.ts';
import type { Directory } from '../authorization/directory.ts';
import type { Secrets } from '../secrets/secrets.ts';
import type { IdentityProvider, Oidc } from './oidc.ts';
import { secureUrl } from './oidc_keys.ts';

export interface ProviderSpec {
  readonly comment?: string;
  readonly properties?: Readonly<Record<string, string>>;
  readonly issuer: string;
  readonly audiences: readonly string[];
  readonly algorithms: readonly SigningAlgorithm[];
  readonly jwksUri?: string;
  readonly userClaim: string;
  readonly rolesClaim?: string;
  readonly roleMapping: Readonly<Record<string, string>>;
  readonly createUsers: boolean;
  readonly disabled: boolean;
  readonly hasClientSecret: boolean;
  readonly consoleClientId?: string;
}

export interface IdentityProvidersOptions {
  readonly store: Store;
  readonly secrets: Secrets;
  readonly oidc: Pick<Oidc, 'setProviders' | 'status'>;
  readonly directory: Directory;
  /** Hosts that issuers may use. */
  readonly hosts: HostAllowlist;
}

const secretOf = (id: string) => `identity_provider/${id}`;

export class IdentityProviders {
  readonly #options: IdentityProvidersOptions;
  #specs: ReadonlyMap<string, ProviderSpec> = new Map();
  #providers: readonly IdentityProvider[] = [];
  #reloading: Promise<void> = Promise.resolve();

  constructor(options: IdentityProvidersOptions) {
    this.#options = options;
  }

  /** Undefined if the change does not concern the providers. */
  changed(change: Change): Promise<void> | undefined {
    return change.kind === 'object' && change.category === 'identity_providers' ? this.reload() : undefined;
  }

  /** Reads the providers again; tokens verified before must be verified again. */
  reload(): Promise<void> {
    // One after the other, so that the last one to finish has read last.
    this.#reloading = this.#reloading.catch(() => undefined).then(() => this.#load());
    return this.#reloading;
  }

  async #load(): Promise<void> {
    const { store, secrets, oidc, directory } = this.#options;
    const rows = await store.db
      .selectFrom('objects')
      .select(['id', 'name', 'spec'])
      .where('category', '=', 'identity_providers')
      .where('parent_id', 'is', null)
      .execute();
    const providers: IdentityProvider[] = [];
    const specs = new Map<string, ProviderSpec>();
    for (const { id, name, spec: text } of rows) {
      const spec = JSON.parse(text) as ProviderSpec;
      specs.set(id, spec);
      const { issuer, audiences, algorithms, jwksUri, userClaim, rolesClaim, roleMapping, disabled, consoleClientId } =
        spec;
      const clientSecret = spec.hasClientSecret ? await secrets.get(secretOf(id)) : undefined;
      providers.push({
        id,
        name,
        issuer,
        audiences: [...audiences],
        algorithms: [...algorithms],
        userClaim,
        roleMapping,
        disabled,
        ...(jwksUri === undefined ? {} : { jwksUri }),
        ...(rolesClaim === undefined ? {} : { rolesClaim }),
        ...(clientSecret === undefined ? {} : { clientSecret }),
        ...(consoleClientId === undefined ? {} : { consoleClientId }),
      });
    }
    this.#specs = specs;
    this.#providers = providers;
    oidc.setProviders(providers);
    directory.credentialsChanged();
  }

  all(): readonly IdentityProvider[] {
    return this.#providers;
  }

  /** The ids of the roles that a provider may assign; undefined if its users may not sign in. */
  rolesOf(id: string): ReadonlySet<string> | undefined {
    const spec = this.#specs.get(id);
    if (!spec || spec.disabled) return undefined;
    const { directory } = this.#options;
    return new Set(Object.values(spec.roleMapping).flatMap((name) => directory.roleNamed(name)?.id ?? []));
  }

  specOf(id: string): ProviderSpec | undefined {
    return this.#specs.get(id);
  }

  /** The reason why keys are unavailable is only logged: it would reveal hosts in the server's network. */
  status(id: string): { readonly keysFetchedAt: number | undefined; readonly error: string | undefined } {
    const { keysFetchedAt, error } = this.#options.oidc.status(id);
    return { keysFetchedAt, error: error && 'the signing keys are unavailable; the log of the server says why' };
  }

  /** In the transaction that changes the provider. `undefined` leaves the secret as it is, null removes it. */
  async storeSecret(tx: Transaction<Schema>, id: string, secret: string | null | undefined): Promise<void> {
    if (typeof secret === 'string') await this.#options.secrets.put(secretOf(id), secret, tx);
    else if (secret === null) await this.#options.secrets.remove(secretOf(id), tx);
  }

  /** Why a spec is invalid, or undefined. `id`: of the existing provider, if any. */
  fault(
    spec: ProviderSpec,
    id: string | undefined,
  ): { readonly pointer: string; readonly message: string } | undefined {
    for (const [field, text] of [
      ['issuer', spec.issuer],
      ['jwksUri', spec.jwksUri],
    ] as const) {
      if (text === undefined) continue;
      const url = secureUrl(text);
      if (!url) return { pointer: `/${field}`, message: 'must be an https URL without user and fragment' };
      if (!this.#options.hosts.allows(url))
        return { pointer: `/${field}`, message: 'is on a host that the setting identityProviderHosts does not allow' };
    }
    if (spec.consoleClientId !== undefined && !spec.audiences.includes(spec.consoleClientId))
      return {
        pointer: '/consoleClientId',
        message: 'must be one of the audiences, because it is the audience of ID tokens for the console',
      };
    for (const [other, { issuer }] of this.#specs)
      if (other !== id && issuer === spec.issuer)
        return { pointer: '/issuer', message: 'is already used by another identity provider' };
    return undefined;
  }
}
