// The page of a role: its members and its grants.
import { useQuery } from '@tanstack/react-query';
import { UserPlus } from 'lucide-react';
import { useMemo, useState } from 'react';
import { failureOf, queryClient } from '../app/queries.ts';
import { RoomLink } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { CallDialog } from '../forms/call_dialog.tsx';
import { Button } from '../ui/button.tsx';
import { type Column, DataTable } from '../ui/data/data_table.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { EmptyState, Loading } from '../ui/feedback.tsx';
import { formatCount } from '../ui/format.ts';
import { PageBody, Toolbar } from '../ui/layout/page.tsx';
import { GranteeField } from './grant_dialogs.tsx';
import { GrantsOf } from './grants_of.tsx';
import { PrincipalHead, PrincipalTabs } from './principal_head.tsx';

interface RoleProps {
  readonly name: string;
}

export function RolePage({ name }: RoleProps) {
  const read = useQuery({
    queryKey: ['roles', name],
    queryFn: ({ signal }) => client.roles(name).get({ signal }),
  });
  const { data, refetch } = read;
  const error = failureOf(read);
  if (error)
    return (
      <PageBody label="Failure">
        <ErrorPanel error={error} title="The role cannot be shown" onRetry={refetch} />
      </PageBody>
    );
  if (!data) return <Loading />;
  return (
    <>
      <PrincipalHead category="roles" name={name} comment={data.comment} />
      <PrincipalTabs
        label={`About ${name}`}
        tabs={[
          {
            value: 'members',
            label: `Members ${formatCount(data.members.length)}`,
            content: <Members name={name} members={data.members} />,
          },
          { value: 'grants', label: 'Grants', content: <GrantsOf category="roles" name={name} /> },
        ]}
      />
    </>
  );
}

interface Member {
  readonly user: string;
}

function Members({ name, members }: RoleProps & { readonly members: readonly string[] }) {
  const [isAdding, setIsAdding] = useState(false);
  const [removed, setRemoved] = useState<string>();
  const columns = useMemo(() => memberColumns(setRemoved), []);
  const records = useMemo(() => members.map((user): Member => ({ user })), [members]);
  return (
    <>
      <Toolbar>
        <Button icon={<UserPlus aria-hidden />} onClick={() => setIsAdding(true)}>
          Add member
        </Button>
      </Toolbar>
      <DataTable
        label="Members"
        columns={columns}
        records={records}
        keyOf={({ user }) => user}
        empty={<EmptyState title="The role has no members" />}
      />
      {isAdding && <AddMemberDialog name={name} onClose={() => setIsAdding(false)} />}
      {removed !== undefined && (
        <CallDialog
          title={`Remove ${removed} from ${name}?`}
          description="It loses what only this role allows."
          call={(api, options) => api.roles(name).removeMembers({ members: [removed] }, options)}
          submitLabel="Remove"
          isDangerous
          doneText={`${removed} removed`}
          onClose={() => setRemoved(undefined)}
          onDone={membersChanged}
        />
      )}
    </>
  );
}

function membersChanged(): void {
  for (const category of ['roles', 'users', 'grants']) void queryClient.invalidateQueries({ queryKey: [category] });
}

function AddMemberDialog({ name, onClose }: RoleProps & { readonly onClose: () => void }) {
  const [user, setUser] = useState('');
  return (
    <CallDialog
      title={`Add a member to ${name}`}
      call={(api, options) => api.roles(name).addMembers({ members: [user] }, options)}
      submitLabel="Add"
      isComplete={user !== ''}
      doneText={`${user} added`}
      onClose={onClose}
      onDone={membersChanged}
    >
      <GranteeField category="users" name={user} onChange={setUser} />
    </CallDialog>
  );
}

const memberColumns = (onRemove: (user: string) => void): readonly Column<Member>[] => [
  {
    id: 'user',
    header: 'User',
    value: ({ user }) => user,
    render: ({ user }) => (
      <RoomLink room="access" names={['users', user]}>
        {user}
      </RoomLink>
    ),
  },
  {
    id: 'remove',
    header: 'Action',
    value: () => null,
    render: ({ user }) => (
      <Button size="small" look="danger" onClick={() => onRemove(user)}>
        Remove
      </Button>
    ),
  },
];
