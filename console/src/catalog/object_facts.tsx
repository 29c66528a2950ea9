// The fields that the records of all kinds of objects have, and the properties.

import { type Fact, Facts } from '../ui/data/facts.tsx';
import { formatAgo, formatTime } from '../ui/format.ts';
import { PageBody } from '../ui/layout/page.tsx';
import type { ObjectRecord } from './object_ref.ts';

const timeOf = (iso: string, by: string) => (
  <span title={formatTime(iso)}>
    {formatAgo(iso)} by {by}
  </span>
);

/** `facts`: those of this kind, which come first. */
export function ObjectFacts({
  record,
  facts = [],
}: {
  readonly record: ObjectRecord;
  readonly facts?: readonly Fact[];
}) {
  const properties = Object.entries(record.properties);
  return (
    <PageBody label="Overview">
      <Facts
        facts={[
          ...facts,
          { label: 'Owner', value: record.owner },
          { label: 'State', value: record.state },
          { label: 'Created', value: timeOf(record.createdAt, record.createdBy) },
          { label: 'Changed', value: timeOf(record.updatedAt, record.updatedBy) },
          { label: 'Version', value: record.version },
          { label: 'URI', value: <code key="uri">{record.uri}</code> },
        ]}
      />
      {record.comment !== null && <Facts facts={[{ label: 'Comment', value: record.comment }]} />}
      {properties.length > 0 && (
        <div>
          <h3>Properties</h3>
          <Facts facts={properties.map(([label, value]) => ({ label, value }))} />
        </div>
      )}
    </PageBody>
  );
}
