// Users and roles: lists with a search, and forms that create them.
import { UserPlus, Users } from 'lucide-react';
import { useDeferredValue, useState } from 'react';
import { containsPattern } from '../app/like_pattern.ts';
import { queryClient, usePages } from '../app/queries.ts';
import { useOpenRoom } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { CallDialog } from '../forms/call_dialog.tsx';
import { Button } from '../ui/button.tsx';
import { type Column, DataTable } from '../ui/data/data_table.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Badge, EmptyState } from '../ui/feedback.tsx';
import { Field, TextArea, TextInput } from '../ui/field.tsx';
import { formatAgo, formatCount } from '../ui/format.ts';
import { PageBody, Toolbar } from '../ui/layout/page.tsx';

interface Principal {
  readonly name: string;
  readonly comment: string | null;
  readonly createdAt: string;
}
interface User extends Principal {
  readonly state: string;
  readonly hasPassword: boolean;
  readonly roles: readonly string[];
}
interface Role extends Principal {
  readonly members: readonly string[];
}

const nameColumn = <R extends Principal>(): Column<R> => ({
  id: 'name',
  header: 'Name',
  value: ({ name }) => name,
  render: ({ name }) => <strong>{name}</strong>,
});
const restColumns = <R extends Principal>(): readonly Column<R>[] => [
  { id: 'comment', header: 'Comment', value: ({ comment }) => comment },
  {
    id: 'created',
    header: 'Created',
    value: ({ createdAt }) => createdAt,
    render: ({ createdAt }) => formatAgo(createdAt),
  },
];

const userColumns: readonly Column<User>[] = [
  nameColumn(),
  {
    id: 'state',
    header: 'State',
    value: ({ state }) => state,
    render: ({ state }) => <Badge tone={state === 'enabled' ? 'success' : 'warning'}>{state}</Badge>,
  },
  { id: 'roles', header: 'Roles', value: ({ roles }) => roles.join(', ') },
  { id: 'password', header: 'Password', value: ({ hasPassword }) => (hasPassword ? 'yes' : 'no') },
  ...restColumns<User>(),
];
const roleColumns: readonly Column<Role>[] = [
  nameColumn(),
  {
    id: 'members',
    header: 'Members',
    isNumber: true,
    value: ({ members }) => members.length,
    render: ({ members }) => formatCount(members.length),
  },
  ...restColumns<Role>(),
];

const pageSize = 200;

export function UsersPage() {
  return (
    <Principals<User>
      category="users"
      columns={userColumns}
      fetchList={(namePattern, signal) => client.users.search({ namePattern, pageSize }, { signal })}
      createForm={(onClose) => <CreateUserDialog onClose={onClose} />}
    />
  );
}

export function RolesPage() {
  return (
    <Principals<Role>
      category="roles"
      columns={roleColumns}
      fetchList={(namePattern, signal) => client.roles.search({ namePattern, pageSize }, { signal })}
      createForm={(onClose) => <CreateRoleDialog onClose={onClose} />}
    />
  );
}

interface PrincipalsProps<R> {
  readonly category: 'users' | 'roles';
  readonly columns: readonly Column<R>[];
  readonly fetchList: (namePattern: string, signal: AbortSignal) => ReturnType<Parameters<typeof usePages<R>>[1]>;
  readonly createForm: (onClose: () => void) => React.ReactNode;
}

function Principals<R extends Principal>({ category, columns, fetchList, createForm }: PrincipalsProps<R>) {
  const [text, setText] = useState('');
  const [isCreating, setIsCreating] = useState(false);
  const searchText = useDeferredValue(text.trim());
  const openRoom = useOpenRoom();
  const namePattern = containsPattern(searchText);
  const { items, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = usePages<R>(
    [category, 'search', namePattern],
    (signal) => fetchList(namePattern, signal),
  );
  return (
    <>
      <Toolbar>
        <TextInput
          type="search"
          aria-label={`Search ${category}`}
          placeholder={`Search ${category}`}
          value={text}
          onChange={setText}
        />
        <Button look="primary" icon={<UserPlus aria-hidden />} onClick={() => setIsCreating(true)}>
          {category === 'users' ? 'Create user' : 'Create role'}
        </Button>
      </Toolbar>
      {error ? (
        <PageBody label="Failure">
          <ErrorPanel error={error} title={`The ${category} cannot be listed`} onRetry={refetch} />
        </PageBody>
      ) : (
        <DataTable
          label={category}
          columns={columns}
          records={items}
          keyOf={({ name }) => name}
          onOpen={({ name }) => openRoom('access', [category, name])}
          onEnd={hasNextPage && !isFetchingNextPage ? fetchNextPage : undefined}
          isFetchingMore={isFetchingNextPage}
          empty={<EmptyState icon={<Users aria-hidden />} title={`No ${category} that you may see`} />}
        />
      )}
      {isCreating && createForm(() => setIsCreating(false))}
    </>
  );
}

interface DialogProps {
  readonly onClose: () => void;
}

function CreateUserDialog({ onClose }: DialogProps) {
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const [comment, setComment] = useState('');
  const openRoom = useOpenRoom();
  const body = { name, ...(password === '' ? {} : { password }), ...(comment === '' ? {} : { comment }) };
  return (
    <CallDialog
      title="Create user"
      description="It may do nothing until something is granted to it or to one of its roles."
      call={(api, options) => api.users.create(body, options)}
      submitLabel="Create"
      isComplete={name !== ''}
      secret={password}
      doneText={`User ${name} created`}
      onClose={onClose}
      onDone={() => {
        void queryClient.invalidateQueries({ queryKey: ['users'] });
        openRoom('access', ['users', name]);
      }}
    >
      <Field label="Name">
        <TextInput value={name} onChange={setName} autoFocus />
      </Field>
      <Field label="Password" description="Empty: the user signs in with tokens or an identity provider.">
        <TextInput type="password" autoComplete="new-password" value={password} onChange={setPassword} />
      </Field>
      <Field label="Comment">
        <TextInput value={comment} onChange={setComment} />
      </Field>
    </CallDialog>
  );
}

/** One name on each line. */
export const namesIn = (text: string): readonly string[] => [
  ...new Set(
    text
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== ''),
  ),
];

function CreateRoleDialog({ onClose }: DialogProps) {
  const [name, setName] = useState('');
  const [members, setMembers] = useState('');
  const [comment, setComment] = useState('');
  const openRoom = useOpenRoom();
  const names = namesIn(members);
  const body = { name, ...(names.length === 0 ? {} : { members: names }), ...(comment === '' ? {} : { comment }) };
  return (
    <CallDialog
      title="Create role"
      call={(api, options) => api.roles.create(body, options)}
      submitLabel="Create"
      isComplete={name !== ''}
      doneText={`Role ${name} created`}
      onClose={onClose}
      onDone={() => {
        void queryClient.invalidateQueries({ queryKey: ['roles'] });
        openRoom('access', ['roles', name]);
      }}
    >
      <Field label="Name">
        <TextInput value={name} onChange={setName} autoFocus />
      </Field>
      <Field label="Members" description="Names of users, one on each line.">
        <TextArea value={members} onChange={setMembers} rows={3} />
      </Field>
      <Field label="Comment">
        <TextInput value={comment} onChange={setComment} />
      </Field>
    </CallDialog>
  );
}
