// Who was granted something on an object, on what contains it, or on everything.
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

interface GrantOn {
  readonly grantId: string;
  readonly privilege: string;
  readonly on: string;
  readonly via: { readonly category: string; readonly name: string };
}

export function GrantsOn({ uri }: { readonly uri: string }) {
  const [isGranting, setIsGranting] = useState(false);
  const [revoked, setRevoked] = useState<GrantOn>();
  const columns = useMemo(() => columnsOf(uri, setRevoked), [uri]);
  const { items, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = usePages<GrantOn>(
    ['grants', 'on', uri],
    (signal) => client.users.searchGrants({ on: uri }, { signal }),
  );
  return (
    <>
      <Toolbar>
        <Button icon={<ShieldPlus aria-hidden />} onClick={() => setIsGranting(true)}>
          Grant
        </Button>
        <RoomLink room="access" names={['why']} search={{ on: uri }}>
          Why may somebody do something here?
        </RoomLink>
      </Toolbar>
      {error ? (
        <PageBody label="Failure">
          <ErrorPanel error={error} title="The grants cannot be shown" onRetry={refetch} />
        </PageBody>
      ) : (
        <DataTable
          label="Grants"
          columns={columns}
          records={items}
          keyOf={({ via, grantId }) => `${via.category} ${via.name} ${grantId}`}
          onEnd={hasNextPage && !isFetchingNextPage ? fetchNextPage : undefined}
          isFetchingMore={isFetchingNextPage}
          empty={
            <EmptyState icon={<ShieldCheck aria-hidden />} title="No grants that you may see">
              The owner has all privileges without one, and root everywhere.
            </EmptyState>
          }
        />
      )}
      {isGranting && <GrantDialog on={uri} onClose={() => setIsGranting(false)} />}
      {revoked && (
        <RevokeDialog
          category={categoryOf(revoked)}
          name={revoked.via.name}
          grant={revoked}
          onClose={() => setRevoked(undefined)}
        />
      )}
    </>
  );
}

const categoryOf = ({ via }: GrantOn): GranteeCategory => (via.category === 'roles' ? 'roles' : 'users');

const columnsOf = (uri: string, onRevoke: (grant: GrantOn) => void): readonly Column<GrantOn>[] => [
  {
    id: 'grantee',
    header: 'Granted to',
    value: ({ via }) => via.name,
    render: ({ via }) => (
      <RoomLink room="access" names={[via.category, via.name]}>
        {via.name}
      </RoomLink>
    ),
  },
  {
    id: 'category',
    header: 'Kind',
    value: ({ via }) => via.category,
    render: ({ via }) => (via.category === 'roles' ? 'role' : 'user'),
  },
  {
    id: 'privilege',
    header: 'Privilege',
    value: ({ privilege }) => privilege,
    render: ({ privilege }) => <Badge tone="accent">{privilege}</Badge>,
  },
  { id: 'on', header: 'On', value: ({ on }) => (on === uri ? 'this object' : on) },
  {
    id: 'revoke',
    header: 'Action',
    value: () => null,
    render: (grant) => (
      <Button size="small" look="danger" onClick={() => onRevoke(grant)}>
        Revoke
      </Button>
    ),
  },
];
