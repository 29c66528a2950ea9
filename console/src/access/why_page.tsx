// Why a user or a role may do something, or that it may not: every privilege on one object, with the grant that allows it. The question
// is in the address, so that it can be shared.
import { useQuery } from '@tanstack/react-query';
import { CircleHelp } from 'lucide-react';
import { type Privilege, privilegeDocs, privileges } from '../../../src/model/privileges.ts';
import { RoomLink, useOpenRoom, useRoomSearch } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { type Column, DataTable } from '../ui/data/data_table.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Badge, EmptyState } from '../ui/feedback.tsx';
import { Field } from '../ui/field.tsx';
import { PageBody } from '../ui/layout/page.tsx';
import { Select } from '../ui/overlays/select.tsx';
import { type GranteeCategory, GranteeField, granteeIn, ObjectUriField } from './grant_dialogs.tsx';
import styles from './why_page.module.css';

interface Decision {
  readonly privilege: Privilege;
  readonly allowed: boolean;
  readonly by: { readonly kind: string; readonly grant: string | null } | null;
}

const categoryChoices = [
  { value: 'users', label: 'User' },
  { value: 'roles', label: 'Role' },
] as const;

export function WhyPage() {
  const search = useRoomSearch();
  const openRoom = useOpenRoom();
  const category: GranteeCategory = search.category === 'roles' ? 'roles' : 'users';
  const { name = '', on = '' } = search;
  const ask = (changed: Readonly<Record<string, string>>) =>
    openRoom('access', ['why'], { category, name, on, ...changed }, { replace: true });
  return (
    <>
      <div className={styles.question}>
        <Field label="Kind">
          <Select value={category} choices={categoryChoices} onChange={(next) => ask({ category: next })} />
        </Field>
        <GranteeField category={category} name={name} onChange={(next) => ask({ name: next })} />
        <ObjectUriField value={on} onChange={(next) => ask({ on: next })} />
      </div>
      {name === '' || on === '' ? (
        <EmptyState icon={<CircleHelp aria-hidden />} title="Why may somebody do something?">
          Choose a user or a role, and an object. Every privilege is shown with the grant that allows it.
        </EmptyState>
      ) : (
        <Decisions category={category} name={name} on={on} />
      )}
    </>
  );
}

interface DecisionsProps {
  readonly category: GranteeCategory;
  readonly name: string;
  readonly on: string;
}

const typingPauseMs = 300;

function Decisions({ category, name, on }: DecisionsProps) {
  const { data, error, refetch } = useQuery({
    queryKey: ['grants', 'check', category, name, on],
    queryFn: async ({ signal }) => {
      await new Promise((resolve) => setTimeout(resolve, typingPauseMs));
      signal.throwIfAborted();
      const checks = privileges.map((privilege) => ({ privilege, on }));
      return granteeIn(client, category, name).grants.check({ checks }, { signal });
    },
  });
  if (error)
    return (
      <PageBody label="Failure">
        <ErrorPanel error={error} title="This cannot be decided" onRetry={refetch} />
      </PageBody>
    );
  return <DataTable label="Decisions" columns={columns} records={data?.results} keyOf={({ privilege }) => privilege} />;
}

const columns: readonly Column<Decision>[] = [
  {
    id: 'privilege',
    header: 'Privilege',
    value: ({ privilege }) => privilege,
    render: ({ privilege }) => <strong>{privilege}</strong>,
  },
  {
    id: 'allowed',
    header: 'May it?',
    value: ({ allowed }) => (allowed ? 'yes' : 'no'),
    render: ({ allowed }) => <Badge tone={allowed ? 'success' : 'neutral'}>{allowed ? 'yes' : 'no'}</Badge>,
  },
  { id: 'by', header: 'Because', value: ({ by }) => by?.kind ?? '', render: (decision) => <Reason {...decision} /> },
  { id: 'meaning', header: 'What it allows', value: ({ privilege }) => privilegeDocs[privilege] },
];

/** `/api/v2/roles/analysts/grants/read-…`: who has the grant. */
function Reason({ by }: Decision) {
  if (by === null) return 'no grant, no role and no ownership allows it, or the user is disabled';
  if (by.kind === 'owner') return 'it owns the object, or what contains it';
  if (by.kind === 'root' || by.grant === null) return 'it is root, who may do everything';
  const [, , , category = '', name = ''] = by.grant.split('/').map(decodeURIComponent);
  return (
    <>
      grant of {category === 'roles' ? 'role' : 'user'}{' '}
      <RoomLink room="access" names={[category, name]} search={{ tab: 'grants' }}>
        {name}
      </RoomLink>
    </>
  );
}
