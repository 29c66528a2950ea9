// The grants of a user or a role: its own, which can be revoked, and those that a user has by its roles.
import { ShieldCheck, ShieldPlus } from 'lucide-react';
import { useMemo, useState } from 'react';
import { usePages } from '../app/queries.ts';
import { RoomLink } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { Button } from '../ui/button.tsx';
import { type Column, DataTable } from '../ui/data/data_table.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Badge, EmptyState } from '../ui/feedback.tsx';
import { PageBody, Toolbar } from '../ui/layout/page.tsx';
import { GrantDialog, type GranteeCategory, RevokeDialog } from './grant_dialogs.tsx';

interface OwnGrant {
  readonly grantId: string;
  readonly privilege: string;
  readonly on: string;
  /** Of a user: itself or the role. */
  readonly via?: { readonly category: string; readonly name: string };
}

interface GrantsOfProps {
  readonly category: GranteeCategory;
  readonly name: string;
}

export function GrantsOf({ category, name }: GrantsOfProps) {
  const [isGranting, setIsGranting] = useState(false);
  const [revoked, setRevoked] = useState<OwnGrant>();
  const columns = useMemo(() => columnsOf(setRevoked), []);
  const { items, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = usePages<OwnGrant>(
    ['grants', 'of', category, name],
    (signal) =>
      category === 'users'
        ? client.users(name).effectiveGrants({}, { signal })
        : client.roles(name).grants.list({}, { signal }),
  );
  return (
    <>
      <Toolbar>
        <Button icon={<ShieldPlus aria-hidden />} onClick={() => setIsGranting(true)}>
          Grant
        </Button>
      </Toolbar>
      {error ? (
        <PageBody label="Failure">
          <ErrorPanel error={error} title="The grants cannot be listed" onRetry={refetch} />
        </PageBody>
      ) : (
        <DataTable
          label="Grants"
          columns={columns}
          records={items}
          keyOf={({ via, grantId }) => `${via?.category} ${via?.name} ${grantId}`}
          onEnd={hasNextPage && !isFetchingNextPage ? fetchNextPage : undefined}
          isFetchingMore={isFetchingNextPage}
          empty={<EmptyState icon={<ShieldCheck aria-hidden />} title="Nothing was granted" />}
        />
      )}
      {isGranting && <GrantDialog grantee={{ category, name }} onClose={() => setIsGranting(false)} />}
      {revoked && (
        <RevokeDialog category={category} name={name} grant={revoked} onClose={() => setRevoked(undefined)} />
      )}
    </>
  );
}

const isByRole = ({ via }: OwnGrant): boolean => via?.category === 'roles';

const columnsOf = (onRevoke: (grant: OwnGrant) => void): readonly Column<OwnGrant>[] => [
  {
    id: 'privilege',
    header: 'Privilege',
    value: ({ privilege }) => privilege,
    render: ({ privilege }) => <Badge tone="accent">{privilege}</Badge>,
  },
  { id: 'on', header: 'On', value: ({ on }) => on, render: ({ on }) => <code>{on}</code> },
  {
    id: 'via',
    header: 'By',
    value: ({ via }) => via?.name ?? '',
    render: (grant) =>
      isByRole(grant) && grant.via ? (
        <RoomLink room="access" names={['roles', grant.via.name]}>
          role {grant.via.name}
        </RoomLink>
      ) : (
        'own grant'
      ),
  },
  {
    id: 'revoke',
    header: 'Action',
    value: () => null,
    render: (grant) =>
      isByRole(grant) ? null : (
        <Button size="small" look="danger" onClick={() => onRevoke(grant)}>
          Revoke
        </Button>
      ),
  },
];
