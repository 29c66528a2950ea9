// The page of a user: its fields, grants, tokens and activity.
import { useQuery } from '@tanstack/react-query';
import { Ban, CircleCheck } from 'lucide-react';
import { useState } from 'react';
import { failureOf, queryClient } from '../app/queries.ts';
import { RoomLink } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { CallDialog } from '../forms/call_dialog.tsx';
import { Button } from '../ui/button.tsx';
import { Facts } from '../ui/data/facts.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Badge, Loading } from '../ui/feedback.tsx';
import { formatTime } from '../ui/format.ts';
import { PageBody } from '../ui/layout/page.tsx';
import { AuditList } from './audit_list.tsx';
import { GrantsOf } from './grants_of.tsx';
import { PrincipalHead, PrincipalTabs } from './principal_head.tsx';
import { TokensTab } from './tokens_tab.tsx';

export function UserPage({ name }: { readonly name: string }) {
  const read = useQuery({
    queryKey: ['users', name],
    queryFn: ({ signal }) => client.users(name).get({ signal }),
  });
  const [isSwitching, setIsSwitching] = useState(false);
  const { data, refetch } = read;
  const error = failureOf(read);
  if (error)
    return (
      <PageBody label="Failure">
        <ErrorPanel error={error} title="The user cannot be shown" onRetry={refetch} />
      </PageBody>
    );
  if (!data) return <Loading />;
  const { disabled } = data;
  return (
    <>
      <PrincipalHead
        category="users"
        name={name}
        comment={data.comment}
        marks={<Badge tone={disabled ? 'warning' : 'success'}>{data.state}</Badge>}
        actions={
          <Button
            icon={disabled ? <CircleCheck aria-hidden /> : <Ban aria-hidden />}
            onClick={() => setIsSwitching(true)}
          >
            {disabled ? 'Enable' : 'Disable'}
          </Button>
        }
      />
      <PrincipalTabs
        label={`About ${name}`}
        tabs={[
          { value: 'grants', label: 'Grants', content: <GrantsOf category="users" name={name} /> },
          { value: 'tokens', label: 'Tokens', content: <TokensTab user={name} /> },
          {
            value: 'overview',
            label: 'Overview',
            content: (
              <PageBody label="Overview">
                <Facts
                  facts={[
                    {
                      label: 'Roles',
                      value: data.roles.length === 0 ? null : <RoleLinks key="roles" roles={data.roles} />,
                    },
                    { label: 'Password', value: data.hasPassword ? 'yes' : 'no' },
                    {
                      label: 'Identity provider',
                      value: data.identity === null ? null : JSON.stringify(data.identity),
                    },
                    { label: 'Owner', value: data.owner },
                    { label: 'Created', value: `${formatTime(data.createdAt)} by ${data.createdBy}` },
                    { label: 'URI', value: <code key="uri">{data.uri}</code> },
                  ]}
                />
              </PageBody>
            ),
          },
          {
            value: 'activity',
            label: 'Activity',
            content: <AuditList filter={{ principal: name }} label="Activity" />,
          },
        ]}
      />
      {isSwitching && <SwitchDialog name={name} disabled={disabled} onClose={() => setIsSwitching(false)} />}
    </>
  );
}

interface SwitchDialogProps {
  readonly name: string;
  readonly disabled: boolean;
  readonly onClose: () => void;
}

function SwitchDialog({ name, disabled, onClose }: SwitchDialogProps) {
  return (
    <CallDialog
      title={disabled ? `Enable user ${name}?` : `Disable user ${name}?`}
      description={
        disabled
          ? 'Its password and tokens are accepted again.'
          : 'Its password and tokens are refused until it is enabled again. Its grants and objects are kept.'
      }
      call={(api, options) => api.users(name).update({ disabled: !disabled }, options)}
      submitLabel={disabled ? 'Enable' : 'Disable'}
      isDangerous={!disabled}
      doneText={disabled ? `${name} enabled` : `${name} disabled`}
      onClose={onClose}
      onDone={() => void queryClient.invalidateQueries({ queryKey: ['users'] })}
    />
  );
}

const RoleLinks = ({ roles }: { readonly roles: readonly string[] }) =>
  roles.map((role, i) => (
    <span key={role}>
      {i > 0 && ', '}
      <RoomLink room="access" names={['roles', role]}>
        {role}
      </RoomLink>
    </span>
  ));
