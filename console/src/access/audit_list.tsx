// Events of the audit trail that match a filter, the newest first, and everything about the one that is opened.

import { ScrollText } from 'lucide-react';
import { useMemo, useState } from 'react';
import type { Client } from '../../../src/client/index.ts';
import { usePages } from '../app/queries.ts';
import { client } from '../app/session.ts';
import { CodeBlock } from '../ui/data/code_block.tsx';
import { type Column, DataTable } from '../ui/data/data_table.tsx';
import { Facts } from '../ui/data/facts.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Badge, EmptyState, type Tone } from '../ui/feedback.tsx';
import { formatAgo, formatTime } from '../ui/format.ts';
import { PageBody } from '../ui/layout/page.tsx';
import { Dialog } from '../ui/overlays/dialog.tsx';

export type AuditFilter = Omit<NonNullable<Parameters<Client['auditEvents']['search']>[0]>, 'pageSize'>;
type AuditEvent = Awaited<ReturnType<ReturnType<Client['auditEvents']>['get']>>;

const toneOf = (outcome: string): Tone => (outcome === '0' ? 'success' : outcome === 'begun' ? 'neutral' : 'danger');

const columns: readonly Column<AuditEvent>[] = [
  {
    id: 'at',
    header: 'When',
    value: ({ at }) => at,
    render: ({ at }) => <span title={formatTime(at)}>{formatAgo(at)}</span>,
  },
  { id: 'principal', header: 'Who', value: ({ principal }) => principal ?? 'nobody' },
  { id: 'action', header: 'Action', value: ({ action }) => action, render: ({ action }) => <code>{action}</code> },
  {
    id: 'outcome',
    header: 'Outcome',
    value: ({ outcome }) => outcome,
    render: ({ outcome }) => <Badge tone={toneOf(outcome)}>{outcome === '0' ? 'done' : outcome}</Badge>,
  },
  { id: 'target', header: 'Request', value: ({ target }) => target },
];

const pageSize = 200;

export function AuditList({ filter, label }: { readonly filter: AuditFilter; readonly label: string }) {
  const [opened, setOpened] = useState<AuditEvent>();
  const key = useMemo(() => ['audit_events', 'search', filter], [filter]);
  const { items, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = usePages<AuditEvent>(
    key,
    (signal) => client.auditEvents.search({ ...filter, pageSize }, { signal }),
  );
  if (error)
    return (
      <PageBody label="Failure">
        <ErrorPanel error={error} title="The audit trail cannot be shown" onRetry={refetch} />
      </PageBody>
    );
  return (
    <>
      <DataTable
        label={label}
        columns={columns}
        records={items}
        keyOf={({ eventId }) => eventId}
        onOpen={setOpened}
        onEnd={hasNextPage && !isFetchingNextPage ? fetchNextPage : undefined}
        isFetchingMore={isFetchingNextPage}
        empty={<EmptyState icon={<ScrollText aria-hidden />} title="No events match" />}
      />
      {opened && <AuditEventDialog event={opened} onClose={() => setOpened(undefined)} />}
    </>
  );
}

function AuditEventDialog({ event, onClose }: { readonly event: AuditEvent; readonly onClose: () => void }) {
  return (
    <Dialog title={event.action} isOpen onClose={onClose} size="wide">
      <Facts
        facts={[
          { label: 'When', value: formatTime(event.at) },
          { label: 'Who', value: event.principal },
          { label: 'Outcome', value: event.outcome },
          { label: 'Request', value: event.target },
          { label: 'Address', value: event.address },
          { label: 'Id of the request', value: event.requestId },
          { label: 'Id of the object', value: event.objectId },
          { label: 'Position in the chain', value: event.sequence },
        ]}
      />
      {event.details !== null && <CodeBlock code={JSON.stringify(event.details, null, 2)} label="details" />}
    </Dialog>
  );
}
