// The list of identity providers: whether their keys are available, how they map to users and roles, and what can be done with each.
import { Fingerprint, Pencil, Plus, Trash2 } from 'lucide-react';
import { useMemo, useState } from 'react';
import { usePages } from '../app/queries.ts';
import { client } from '../app/session.ts';
import { Button, IconButton } from '../ui/button.tsx';
import { type Column, DataTable } from '../ui/data/data_table.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Badge, EmptyState } from '../ui/feedback.tsx';
import { PageBody, Toolbar } from '../ui/layout/page.tsx';
import { DeleteProviderDialog, type Provider, ProviderForm } from './provider_dialogs.tsx';

const columnsWith = (
  onChange: (provider: Provider) => void,
  onDelete: (provider: Provider) => void,
): readonly Column<Provider>[] => [
  { id: 'name', header: 'Name', value: ({ name }) => name, render: ({ name }) => <strong>{name}</strong> },
  {
    id: 'state',
    header: 'State',
    value: ({ state }) => state,
    render: ({ state, error }) =>
      error === null ? (
        <Badge tone={state === 'enabled' ? 'success' : 'warning'}>{state}</Badge>
      ) : (
        <Badge tone="danger">{error}</Badge>
      ),
  },
  { id: 'issuer', header: 'Issuer', value: ({ issuer }) => issuer },
  { id: 'claim', header: 'User name from', value: ({ userClaim }) => userClaim },
  { id: 'creates', header: 'Creates users', value: ({ createUsers }) => (createUsers ? 'yes' : 'no') },
  {
    id: 'roles',
    header: 'Roles',
    value: ({ roleMapping }) =>
      Object.entries(roleMapping)
        .map(([claim, role]) => `${claim} → ${role}`)
        .join(', '),
  },
  {
    id: 'actions',
    header: 'Actions',
    isAction: true,
    width: '96px',
    value: () => null,
    render: (provider) => (
      <>
        <IconButton size="small" label={`Change ${provider.name}`} onClick={() => onChange(provider)}>
          <Pencil aria-hidden />
        </IconButton>
        <IconButton size="small" label={`Delete ${provider.name}`} onClick={() => onDelete(provider)}>
          <Trash2 aria-hidden />
        </IconButton>
      </>
    ),
  },
];

type Open = { readonly dialog: 'create' } | { readonly dialog: 'change' | 'delete'; readonly provider: Provider };

export function ProvidersPage() {
  const { items, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = usePages<Provider>(
    ['identity_providers'],
    (signal) => client.identityProviders.list({}, { signal }),
  );
  const [open, setOpen] = useState<Open>();
  const close = () => setOpen(undefined);
  const columns = useMemo(
    () =>
      columnsWith(
        (provider) => setOpen({ dialog: 'change', provider }),
        (provider) => setOpen({ dialog: 'delete', provider }),
      ),
    [],
  );
  if (error)
    return (
      <PageBody label="Failure">
        <ErrorPanel error={error} title="The identity providers cannot be listed" onRetry={refetch} />
      </PageBody>
    );
  return (
    <>
      <Toolbar>
        <Button look="primary" icon={<Plus aria-hidden />} onClick={() => setOpen({ dialog: 'create' })}>
          Create identity provider
        </Button>
      </Toolbar>
      <DataTable
        label="Identity providers"
        columns={columns}
        records={items}
        keyOf={({ name }) => name}
        onEnd={hasNextPage && !isFetchingNextPage ? fetchNextPage : undefined}
        empty={
          <EmptyState icon={<Fingerprint aria-hidden />} title="No identity providers that you may see">
            With one, users sign in with an account that they have elsewhere.
          </EmptyState>
        }
      />
      {open?.dialog === 'create' && <ProviderForm onClose={close} />}
      {open?.dialog === 'change' && <ProviderForm provider={open.provider} onClose={close} />}
      {open?.dialog === 'delete' && <DeleteProviderDialog provider={open.provider} onClose={close} />}
    </>
  );
}
