// The room of access: users, roles, identity providers, grants by object, why somebody may do something, and the audit trail. The part
// and what is opened in it are in the address: /console/access/users/ann.
import { useOpenRoom, useRoomPath } from '../app/room_path.tsx';
import { type Tab, Tabs } from '../ui/layout/tabs.tsx';
import { AuditPage } from './audit_page.tsx';
import { GrantsByObject } from './grants_by_object.tsx';
import { RolesPage, UsersPage } from './principals_page.tsx';
import { ProvidersPage } from './providers_page.tsx';
import { RolePage } from './role_page.tsx';
import { UserPage } from './user_page.tsx';
import { WhyPage } from './why_page.tsx';

export function Room() {
  const [part = 'users', name] = useRoomPath();
  const openRoom = useOpenRoom();
  const tabs: readonly Tab<string>[] = [
    {
      value: 'users',
      label: 'Users',
      content: name === undefined ? <UsersPage /> : <UserPage key={name} name={name} />,
    },
    {
      value: 'roles',
      label: 'Roles',
      content: name === undefined ? <RolesPage /> : <RolePage key={name} name={name} />,
    },
    { value: 'grants', label: 'Grants by object', content: <GrantsByObject /> },
    { value: 'why', label: 'Why may somebody…', content: <WhyPage /> },
    { value: 'identity_providers', label: 'Identity providers', content: <ProvidersPage /> },
    { value: 'audit', label: 'Audit trail', content: <AuditPage /> },
  ];
  const value = tabs.find((tab) => tab.value === part)?.value ?? 'users';
  return <Tabs label="Access" tabs={tabs} value={value} onChange={(next) => openRoom('access', [next])} />;
}
