// The forms that create, change and delete an identity provider.
import { useState } from 'react';
import type { CallOptions, Client } from '../../../src/client/index.ts';
import { queryClient } from '../app/queries.ts';
import { CallDialog } from '../forms/call_dialog.tsx';
import { useRecordAtOpening } from '../forms/record_at_opening.ts';
import { Checkbox, Field, TextArea, TextInput } from '../ui/field.tsx';
import { namesIn } from './principals_page.tsx';

export type Provider = Awaited<ReturnType<ReturnType<Client['identityProviders']>['get']>>;

const changed = (): void => void queryClient.invalidateQueries({ queryKey: ['identity_providers'] });

/** As text; an empty one is null in the API. */
interface Draft {
  readonly name: string;
  readonly issuer: string;
  readonly audiences: string;
  readonly userClaim: string;
  readonly rolesClaim: string;
  readonly roleMapping: string;
  readonly consoleClientId: string;
  readonly clientSecret: string;
  readonly createUsers: boolean;
  readonly isEnabled: boolean;
}

const newDraft: Draft = {
  name: '',
  issuer: '',
  audiences: '',
  userClaim: 'email',
  rolesClaim: '',
  roleMapping: '',
  consoleClientId: '',
  clientSecret: '',
  createUsers: false,
  isEnabled: true,
};

function draftOf(provider: Provider): Draft {
  const { name, issuer, audiences, userClaim, rolesClaim, roleMapping, consoleClientId, createUsers } = provider;
  const pairs = Object.entries(roleMapping).map(([value, role]) => `${value} = ${role}`);
  return {
    ...{ name, issuer, userClaim, createUsers, clientSecret: '' },
    audiences: audiences.join('\n'),
    rolesClaim: rolesClaim ?? '',
    roleMapping: pairs.join('\n'),
    consoleClientId: consoleClientId ?? '',
    isEnabled: !provider.disabled,
  };
}

/** `value = role` on each line; undefined: a line is none. The last `=` divides, because names of groups may contain others. */
function mappingIn(text: string): Readonly<Record<string, string>> | undefined {
  const pairs = namesIn(text).map((line) => line.match(/^(.+?)\s*=\s*([^=]+)$/));
  if (pairs.some((pair) => pair === null)) return undefined;
  return Object.fromEntries(pairs.map((pair) => [pair?.[1] ?? '', pair?.[2] ?? '']));
}

const textOrNull = (text: string): string | null => (text.trim() === '' ? null : text.trim());

/** What both a new provider and a change say. */
function fieldsOf(draft: Draft, roleMapping: Readonly<Record<string, string>>) {
  const { issuer, audiences, userClaim, rolesClaim, consoleClientId, clientSecret, createUsers, isEnabled } = draft;
  return {
    issuer: issuer.trim(),
    audiences: namesIn(audiences),
    userClaim,
    rolesClaim: textOrNull(rolesClaim),
    roleMapping,
    consoleClientId: textOrNull(consoleClientId),
    ...(clientSecret === '' ? {} : { clientSecret }),
    createUsers,
    disabled: !isEnabled,
  };
}

interface ProviderFormProps {
  /** Undefined: a new one. */
  readonly provider?: Provider;
  readonly onClose: () => void;
}

export function ProviderForm({ provider: shown, onClose }: ProviderFormProps) {
  const provider = useRecordAtOpening(shown);
  const [draft, setDraft] = useState(() => (provider ? draftOf(provider) : newDraft));
  const change = (part: Partial<Draft>) => setDraft({ ...draft, ...part });
  const mapping = mappingIn(draft.roleMapping);
  const { name } = draft;
  const call = (api: Client, options?: CallOptions) => {
    const fields = fieldsOf(draft, mapping ?? {});
    if (!provider) return api.identityProviders.create({ name, ...fields }, options);
    const removed = Object.fromEntries(Object.keys(provider.roleMapping).map((value) => [value, null]));
    const roleMapping = { ...removed, ...fields.roleMapping };
    return api.identityProviders(name).update({ ...fields, roleMapping, expectedVersion: provider.version }, options);
  };
  const isComplete = name !== '' && draft.issuer !== '' && namesIn(draft.audiences).length > 0 && mapping !== undefined;
  return (
    <CallDialog
      title={provider ? `Change ${name}` : 'Create identity provider'}
      description="Tokens of the issuer are accepted as credentials. Its keys are fetched from the issuer."
      call={call}
      submitLabel={provider ? 'Save' : 'Create'}
      isComplete={isComplete}
      secret={draft.clientSecret}
      doneText={provider ? `${name} changed` : `Identity provider ${name} created`}
      onClose={onClose}
      onDone={changed}
    >
      {!provider && (
        <Field label="Name">
          <TextInput value={name} onChange={(next) => change({ name: next })} autoFocus />
        </Field>
      )}
      <Field label="Issuer" description="The exact `iss` of its tokens, such as https://login.example.com.">
        <TextInput type="url" value={draft.issuer} onChange={(issuer) => change({ issuer })} />
      </Field>
      <Field label="Audiences" description="One on each line; the `aud` of a token must be one of them.">
        <TextArea rows={2} value={draft.audiences} onChange={(audiences) => change({ audiences })} />
      </Field>
      <Field label="Claim with the name of the user">
        <TextInput value={draft.userClaim} onChange={(userClaim) => change({ userClaim })} />
      </Field>
      <Field label="Claim with roles" description="Such as groups; empty: none.">
        <TextInput value={draft.rolesClaim} onChange={(rolesClaim) => change({ rolesClaim })} />
      </Field>
      <Field
        label="Roles"
        description="value = role, one on each line."
        error={mapping === undefined ? 'Write value = role on each line' : undefined}
      >
        <TextArea rows={2} value={draft.roleMapping} onChange={(roleMapping) => change({ roleMapping })} />
      </Field>
      <Field label="Client id of the console" description="One of the audiences; empty: no sign-in to the console.">
        <TextInput value={draft.consoleClientId} onChange={(consoleClientId) => change({ consoleClientId })} />
      </Field>
      <Field
        label="Client secret"
        description={provider?.hasClientSecret ? 'Empty: as it is.' : 'At least 32 characters; empty: none.'}
      >
        <TextInput
          type="password"
          autoComplete="new-password"
          value={draft.clientSecret}
          onChange={(clientSecret) => change({ clientSecret })}
        />
      </Field>
      <Checkbox
        label="Create users at their first sign-in"
        isChecked={draft.createUsers}
        onChange={(createUsers) => change({ createUsers })}
      />
      <Checkbox label="Enabled" isChecked={draft.isEnabled} onChange={(isEnabled) => change({ isEnabled })} />
    </CallDialog>
  );
}

export function DeleteProviderDialog({ provider: { name }, onClose }: Required<ProviderFormProps>) {
  return (
    <CallDialog
      title={`Delete ${name}?`}
      description="Its tokens are refused from then on. The users that it created stay."
      call={(api, options) => api.identityProviders(name).delete(options)}
      submitLabel="Delete"
      isDangerous
      doneText={`${name} deleted`}
      onClose={onClose}
      onDone={changed}
    />
  );
}
