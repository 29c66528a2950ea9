// The head of the page of a user or a role, with its deletion, and the tabs of that page, one of which is in the address.
import { Trash2, UserRound, Users } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { usePageTitle } from '../app/page_title.ts';
import { queryClient } from '../app/queries.ts';
import { RoomLink, useOpenRoom, useRoomPath, useRoomSearch } from '../app/room_path.tsx';
import { CallDialog } from '../forms/call_dialog.tsx';
import { Button } from '../ui/button.tsx';
import { PageHead } from '../ui/layout/page.tsx';
import { type Tab, Tabs } from '../ui/layout/tabs.tsx';
import { type GranteeCategory, granteeIn } from './grant_dialogs.tsx';

interface PrincipalHeadProps {
  readonly category: GranteeCategory;
  readonly name: string;
  readonly comment: string | null;
  readonly marks?: ReactNode;
  readonly actions?: ReactNode;
}

const lost = {
  users: 'Its tokens and grants are deleted. What it owns is then owned by root. This cannot be undone.',
  roles: 'Its members lose what was granted to the role. This cannot be undone.',
} as const;

export function PrincipalHead({ category, name, comment, marks, actions }: PrincipalHeadProps) {
  const [isDeleting, setIsDeleting] = useState(false);
  const openRoom = useOpenRoom();
  usePageTitle(name);
  const noun = category === 'users' ? 'user' : 'role';
  return (
    <>
      <PageHead
        icon={category === 'users' ? <UserRound aria-hidden /> : <Users aria-hidden />}
        title={name}
        path={
          <RoomLink room="access" names={[category]}>
            {category === 'users' ? 'Users' : 'Roles'}
          </RoomLink>
        }
        marks={marks}
        description={comment ?? undefined}
        actions={
          <>
            {actions}
            <Button look="danger" icon={<Trash2 aria-hidden />} onClick={() => setIsDeleting(true)}>
              Delete
            </Button>
          </>
        }
      />
      {isDeleting && (
        <CallDialog
          title={`Delete ${noun} ${name}?`}
          description={lost[category]}
          call={(api, options) => granteeIn(api, category, name).delete(options)}
          submitLabel={`Delete ${noun}`}
          isDangerous
          doneText={`${name} deleted`}
          onClose={() => setIsDeleting(false)}
          onDone={() => {
            const readAgain = () => queryClient.invalidateQueries({ queryKey: [category] });
            void openRoom('access', [category], {}, { replace: true }).then(readAgain);
          }}
        />
      )}
    </>
  );
}

export function PrincipalTabs({ label, tabs }: { readonly label: string; readonly tabs: readonly Tab<string>[] }) {
  const names = useRoomPath();
  const { tab } = useRoomSearch();
  const openRoom = useOpenRoom();
  const value = tabs.find((one) => one.value === tab)?.value ?? tabs[0]?.value ?? '';
  const select = (next: string) => openRoom('access', names, { tab: next }, { replace: true });
  return <Tabs label={label} tabs={tabs} value={value} onChange={select} />;
}
