// Identity providers, whose tokens are accepted: whether their keys are available, and how they map to users and roles.
import { Fingerprint } from 'lucide-react';
import { usePages } from '../app/queries.ts';
import { client } from '../app/session.ts';
import { type Column, DataTable } from '../ui/data_table.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Badge, EmptyState } from '../ui/feedback.tsx';
import { PageBody } from '../ui/page.tsx';

interface Provider {
  readonly name: string;
  readonly issuer: string;
  readonly state: string;
  readonly error: string | null;
  readonly userClaim: string;
  readonly createUsers: boolean;
  readonly roleMapping: Readonly<Record<string, string>>;
}

const columns: readonly Column<Provider>[] = [
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
];

export function ProvidersPage() {
  const { items, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = usePages<Provider>(
    ['identity_providers'],
    (signal) => client.identityProviders.list({}, { signal }),
  );
  if (error)
    return (
      <PageBody label="Failure">
        <ErrorPanel error={error} title="The identity providers cannot be listed" onRetry={refetch} />
      </PageBody>
    );
  return (
    <DataTable
      label="Identity providers"
      columns={columns}
      records={items}
      keyOf={({ name }) => name}
      onEnd={hasNextPage && !isFetchingNextPage ? fetchNextPage : undefined}
      empty={
        <EmptyState icon={<Fingerprint aria-hidden />} title="No identity providers that you may see">
          They are created through the API: POST /api/v2/identity_providers.
        </EmptyState>
      }
    />
  );
}
