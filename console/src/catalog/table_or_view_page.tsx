// The page of a table or a view: columns, rows, definition, storage, grants, history, and what depends on it.
import { useQuery } from '@tanstack/react-query';
import { client } from '../app/session.ts';
import type { Fact } from '../ui/facts.tsx';
import { formatAgo, formatBytes, formatCount } from '../ui/format.ts';
import { ColumnsTab, ViewColumnsTab } from './columns_tab.tsx';
import { commonTabs } from './container_page.tsx';
import { DefinitionTab, ViewDefinitionTab } from './definition_tab.tsx';
import { DependencyList, DependentsTab } from './dependents_tab.tsx';
import { ObjectFacts } from './object_facts.tsx';
import { ObjectPage } from './object_page.tsx';
import { keyOf, type ObjectRef, tableIn } from './object_ref.ts';
import { Reading } from './reading.tsx';
import { SampleTab } from './sample_tab.tsx';
import { TabletsTab } from './tablets_tab.tsx';

interface PlaceProps {
  readonly path: readonly string[];
}

export const TableOrViewPage = ({ path, isView }: PlaceProps & { readonly isView: boolean }) =>
  isView ? <ViewPage path={path} /> : <TablePage path={path} />;

export type TableRecord = Awaited<ReturnType<ReturnType<typeof tableIn>['get']>>;

function TablePage({ path }: PlaceProps) {
  const object: ObjectRef = { kind: 'table', path };
  const read = useQuery({ queryKey: keyOf(object), queryFn: ({ signal }) => tableIn(client, path).get({ signal }) });
  return (
    <Reading read={read} what="table">
      {(record) => (
        <ObjectPage
          object={object}
          record={record}
          tabs={[
            { value: 'columns', label: 'Columns', content: <ColumnsTab path={path} record={record} /> },
            { value: 'rows', label: 'Sample rows', content: <SampleTab path={path} /> },
            {
              value: 'overview',
              label: 'Overview',
              content: <ObjectFacts record={record} facts={tableFacts(record)} />,
            },
            { value: 'definition', label: 'DDL', content: <DefinitionTab path={path} record={record} /> },
            { value: 'storage', label: 'Storage', content: <TabletsTab path={path} /> },
            { value: 'dependents', label: 'Dependents', content: <DependentsTab object={object} /> },
            ...commonTabs(record),
          ]}
        />
      )}
    </Reading>
  );
}

const names = (columns: readonly string[]) => (columns.length === 0 ? null : columns.join(', '));

function tableFacts(record: TableRecord): readonly Fact[] {
  const { statistics, distribution } = record;
  const { rowCount, dataBytes, asOf } = statistics;
  return [
    { label: 'Rows', value: rowCount === null ? null : formatCount(rowCount) },
    { label: 'Size on disk', value: dataBytes === null ? null : formatBytes(dataBytes) },
    { label: 'Statistics of', value: asOf === null ? null : formatAgo(asOf) },
    { label: 'Primary key', value: names(record.primaryKey) },
    { label: 'Unique key', value: names(record.unique_key_constraints) },
    { label: 'Ordered by', value: names(record.orderBy) },
    { label: 'Partitioned by', value: names(record.partitionBy) },
    { label: 'Distributed by', value: names(distribution.by) },
    { label: 'Buckets', value: distribution.buckets },
    { label: 'Replicas of each tablet', value: record.replicationNum },
  ];
}

function ViewPage({ path }: PlaceProps) {
  const object: ObjectRef = { kind: 'view', path };
  const [catalog = '', database = '', view = ''] = path;
  const read = useQuery({
    queryKey: keyOf(object),
    queryFn: ({ signal }) => client.catalogs(catalog).databases(database).views(view).get({ signal }),
  });
  return (
    <Reading read={read} what="view">
      {(record) => (
        <ObjectPage
          object={object}
          record={record}
          tabs={[
            { value: 'columns', label: 'Columns', content: <ViewColumnsTab columns={record.columns} /> },
            { value: 'rows', label: 'Sample rows', content: <SampleTab path={path} /> },
            { value: 'overview', label: 'Overview', content: <ObjectFacts record={record} /> },
            { value: 'definition', label: 'DDL', content: <ViewDefinitionTab path={path} record={record} /> },
            {
              value: 'sources',
              label: 'Made of',
              content: <DependencyList label="Sources" uris={record.dependsOn} />,
            },
            { value: 'dependents', label: 'Dependents', content: <DependentsTab object={object} /> },
            ...commonTabs(record),
          ]}
        />
      )}
    </Reading>
  );
}
