// The tokens of a user: a new one, whose secret is shown once, and revoking them.
import { KeyRound, Plus } from 'lucide-react';
import { useMemo, useState } from 'react';
import { queryClient, usePages } from '../app/queries.ts';
import { client } from '../app/session.ts';
import { CallDialog } from '../forms/call_dialog.tsx';
import { Button } from '../ui/button.tsx';
import { CodeBlock } from '../ui/data/code_block.tsx';
import { type Column, DataTable } from '../ui/data/data_table.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Badge, EmptyState } from '../ui/feedback.tsx';
import { Checkbox, Field, TextInput } from '../ui/field.tsx';
import { formatAgo } from '../ui/format.ts';
import { PageBody, Toolbar } from '../ui/layout/page.tsx';
import { Dialog } from '../ui/overlays/dialog.tsx';
import { Select } from '../ui/overlays/select.tsx';
import { ObjectUriField } from './grant_dialogs.tsx';

interface Token {
  readonly name: string;
  readonly state: string;
  readonly scopes: readonly { readonly privilege: string; readonly on: string }[] | null;
  readonly expiresAt: string | null;
  readonly lastUsedAt: string | null;
}

const tokensChanged = (): void => void queryClient.invalidateQueries({ queryKey: ['tokens'] });

export function TokensTab({ user }: { readonly user: string }) {
  const [isCreating, setIsCreating] = useState(false);
  const [secret, setSecret] = useState<string>();
  const [revoked, setRevoked] = useState<Token>();
  const columns = useMemo(() => columnsOf(setRevoked), []);
  const { items, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = usePages<Token>(
    ['tokens', user],
    (signal) => client.users(user).tokens.list({}, { signal }),
  );
  return (
    <>
      <Toolbar>
        <Button icon={<Plus aria-hidden />} onClick={() => setIsCreating(true)}>
          Create token
        </Button>
      </Toolbar>
      {error ? (
        <PageBody label="Failure">
          <ErrorPanel error={error} title="The tokens cannot be listed" onRetry={refetch} />
        </PageBody>
      ) : (
        <DataTable
          label="Tokens"
          columns={columns}
          records={items}
          keyOf={({ name }) => name}
          onEnd={hasNextPage && !isFetchingNextPage ? fetchNextPage : undefined}
          empty={
            <EmptyState icon={<KeyRound aria-hidden />} title="No tokens">
              Programs sign in with tokens.
            </EmptyState>
          }
        />
      )}
      {isCreating && <CreateTokenDialog user={user} onClose={() => setIsCreating(false)} onSecret={setSecret} />}
      {secret !== undefined && <SecretDialog secret={secret} onClose={() => setSecret(undefined)} />}
      {revoked && (
        <CallDialog
          title={`Revoke token ${revoked.name}?`}
          description="The next request with it is refused. This cannot be undone."
          call={(api, options) => api.users(user).tokens(revoked.name).delete(options)}
          submitLabel="Revoke"
          isDangerous
          doneText={`${revoked.name} revoked`}
          onClose={() => setRevoked(undefined)}
          onDone={tokensChanged}
        />
      )}
    </>
  );
}

/** The only place where the secret is shown: it is not kept. */
function SecretDialog({ secret, onClose }: { readonly secret: string; readonly onClose: () => void }) {
  return (
    <Dialog
      title="Copy the secret now"
      description="It is not shown again. Whoever has it acts as the user."
      isOpen
      onClose={onClose}
      actions={
        <Button look="primary" onClick={onClose}>
          I have copied it
        </Button>
      }
    >
      <CodeBlock code={secret} label="secret" />
    </Dialog>
  );
}

const lifetimes = [
  { value: '7', label: '7 days' },
  { value: '90', label: '90 days' },
  { value: '365', label: '365 days' },
  { value: 'never', label: 'Never expires' },
] as const;
type Lifetime = (typeof lifetimes)[number]['value'];
const dayMs = 86_400_000;

interface CreateTokenProps {
  readonly user: string;
  readonly onClose: () => void;
  readonly onSecret: (secret: string) => void;
}

function CreateTokenDialog({ user, onClose, onSecret }: CreateTokenProps) {
  const [name, setName] = useState('');
  const [lifetime, setLifetime] = useState<Lifetime>('90');
  const [isReadOnly, setIsReadOnly] = useState(false);
  const [on, setOn] = useState('/api/v2');
  const [openedAt] = useState(() => Date.now());
  const expiresAt = lifetime === 'never' ? null : new Date(openedAt + Number(lifetime) * dayMs).toISOString();
  const body = { name, expiresAt, ...(isReadOnly ? { scopes: [{ privilege: 'read', on } as const] } : {}) };
  return (
    <CallDialog
      title={`Create token of ${user}`}
      description="The secret is shown once, when the token is created."
      call={(api, options) => api.users(user).tokens.create(body, { ...options, idempotencyKey: false })}
      submitLabel="Create"
      isComplete={name !== ''}
      doneText={`Token ${name} created`}
      onClose={onClose}
      onDone={({ secret }) => {
        tokensChanged();
        if (secret !== undefined) onSecret(secret);
      }}
    >
      <Field label="Name">
        <TextInput value={name} onChange={setName} autoFocus />
      </Field>
      <Field label="Expires">
        <Select value={lifetime} choices={lifetimes} onChange={setLifetime} />
      </Field>
      <Checkbox label="Only for reading" isChecked={isReadOnly} onChange={setIsReadOnly} />
      {isReadOnly && <ObjectUriField value={on} onChange={setOn} />}
    </CallDialog>
  );
}

const columnsOf = (onRevoke: (token: Token) => void): readonly Column<Token>[] => [
  { id: 'name', header: 'Name', value: ({ name }) => name, render: ({ name }) => <strong>{name}</strong> },
  {
    id: 'state',
    header: 'State',
    value: ({ state }) => state,
    render: ({ state }) => <Badge tone={state === 'active' ? 'success' : 'warning'}>{state}</Badge>,
  },
  {
    id: 'scopes',
    header: 'Restricted to',
    value: ({ scopes }) =>
      scopes === null ? 'nothing: all of its user' : scopes.map(({ privilege, on }) => `${privilege} ${on}`).join(', '),
  },
  {
    id: 'expires',
    header: 'Expires',
    value: ({ expiresAt }) => expiresAt,
    render: ({ expiresAt }) => (expiresAt === null ? 'never' : formatAgo(expiresAt)),
  },
  {
    id: 'used',
    header: 'Last used',
    value: ({ lastUsedAt }) => lastUsedAt,
    render: ({ lastUsedAt }) => (lastUsedAt === null ? 'never' : formatAgo(lastUsedAt)),
  },
  {
    id: 'revoke',
    header: 'Action',
    value: () => null,
    render: (token) => (
      <Button size="small" look="danger" onClick={() => onRevoke(token)}>
        Revoke
      </Button>
    ),
  },
];
