// Forms that grant a privilege to a user or a role, and revoke one.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Client } from '../../../src/client/index.ts';
import { type Privilege, privilegeDocs, privileges } from '../../../src/model/privileges.ts';
import { queryClient } from '../app/queries.ts';
import { client } from '../app/session.ts';
import { CallDialog } from '../forms/call_dialog.tsx';
import { Field, SuggestedInput, TextInput } from '../ui/field.tsx';
import { Select } from '../ui/overlays/select.tsx';

export type GranteeCategory = 'users' | 'roles';

/** A user or a role in the client; both have grants. */
export const granteeIn = (api: Client, category: GranteeCategory, name: string) =>
  category === 'users' ? api.users(name) : api.roles(name);

const grantsChanged = (): void => void queryClient.invalidateQueries({ queryKey: ['grants'] });

interface GrantDialogProps {
  /** Undefined: it is a field. */
  readonly grantee?: { readonly category: GranteeCategory; readonly name: string };
  readonly on?: string;
  readonly onClose: () => void;
}

const privilegeChoices = privileges.map((value) => ({ value, label: value }));
const categoryChoices = [
  { value: 'users', label: 'User' },
  { value: 'roles', label: 'Role' },
] as const;

export function GrantDialog({ grantee, on: givenOn = '', onClose }: GrantDialogProps) {
  const [category, setCategory] = useState<GranteeCategory>(grantee?.category ?? 'users');
  const [name, setName] = useState(grantee?.name ?? '');
  const [privilege, setPrivilege] = useState<Privilege>('read');
  const [on, setOn] = useState(givenOn);
  return (
    <CallDialog
      title={grantee ? `Grant to ${grantee.name}` : 'Grant'}
      description="It applies to the object and to everything in it. You need the privilege grant on it, and the privilege itself."
      call={(api, options) => granteeIn(api, category, name).grants.create({ privilege, on }, options)}
      submitLabel="Grant"
      isComplete={name !== '' && on !== ''}
      doneText={`${privilege} granted to ${name}`}
      onClose={onClose}
      onDone={grantsChanged}
    >
      {!grantee && (
        <>
          <Field label="Kind">
            <Select value={category} choices={categoryChoices} onChange={setCategory} />
          </Field>
          <GranteeField category={category} name={name} onChange={setName} />
        </>
      )}
      <Field label="Privilege" description={privilegeDocs[privilege]}>
        <Select value={privilege} choices={privilegeChoices} onChange={setPrivilege} />
      </Field>
      <ObjectUriField value={on} onChange={setOn} />
    </CallDialog>
  );
}

/** The URI of what a privilege is on. */
export function ObjectUriField({
  value,
  onChange,
}: {
  readonly value: string;
  readonly onChange: (on: string) => void;
}) {
  return (
    <Field
      label="On"
      description="URI of an object such as /api/v2/catalogs/default/databases/shop, of a collection such as /api/v2/users, or /api/v2 for everything."
    >
      <TextInput value={value} onChange={onChange} isMonospace placeholder="/api/v2/catalogs/default" />
    </Field>
  );
}

interface GranteeFieldProps {
  readonly category: GranteeCategory;
  readonly name: string;
  readonly onChange: (name: string) => void;
}

const suggestionsMax = 20;

/** A name with suggestions, which the server finds as one types. */
export function GranteeField({ category, name, onChange }: GranteeFieldProps) {
  const { data = [] } = useQuery({
    queryKey: [category, 'suggestions', name],
    queryFn: async ({ signal }) => {
      const namePattern = `${name.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
      const { items } = await client[category].search({ namePattern, pageSize: suggestionsMax }, { signal }).page();
      return items.map((item) => item.name);
    },
    placeholderData: (previous) => previous,
  });
  return (
    <Field label={category === 'users' ? 'User' : 'Role'}>
      <SuggestedInput value={name} onChange={onChange} suggestions={data} />
    </Field>
  );
}

interface RevokeDialogProps {
  readonly category: GranteeCategory;
  readonly name: string;
  readonly grant: { readonly grantId: string; readonly privilege: string; readonly on: string };
  readonly onClose: () => void;
}

export function RevokeDialog({ category, name, grant: { grantId, privilege, on }, onClose }: RevokeDialogProps) {
  return (
    <CallDialog
      title={`Revoke ${privilege} from ${name}?`}
      description={`It may not ${privilege} ${on} any more, unless another grant or a role allows it.`}
      call={(api, options) => granteeIn(api, category, name).grants(grantId).delete(options)}
      submitLabel="Revoke"
      isDangerous
      doneText={`${privilege} revoked from ${name}`}
      onClose={onClose}
      onDone={grantsChanged}
    />
  );
}
