// The page of a table or a view: columns, rows, definition, storage, grants, history, and what depends on it.
import { useQuery } from '@tanstack/react-query';
import { Columns3, FileUp } from 'lucide-react';
import type { Column } from '../../../src/client/index.ts';
import { useOpenRoom } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { TableColumns } from '../results/columns/table_columns.tsx';
import { Button } from '../ui/button.tsx';
import type { Fact } from '../ui/data/facts.tsx';
import { formatAgo, formatBytes, formatCount } from '../ui/format.ts';
import { commonTabs } from './container_page.tsx';
import { ObjectFacts } from './object_facts.tsx';
import { ObjectPage } from './object_page.tsx';
import { keyOf, type ObjectRef, type TableRecord, tableIn } from './object_ref.ts';
import { Reading } from './reading.tsx';
import { ColumnsTab, ViewColumnsTab } from './tabs/columns_tab.tsx';
import { DefinitionTab, ViewDefinitionTab } from './tabs/definition_tab.tsx';
import { DependencyList, DependentsTab } from './tabs/dependents_tab.tsx';
import { SampleTab } from './tabs/sample_tab.tsx';
import { TabletsTab } from './tabs/tablets_tab.tsx';

interface PlaceProps {
  readonly path: readonly string[];
}

export const TableOrViewPage = ({ path, isView }: PlaceProps & { readonly isView: boolean }) =>
  isView ? <ViewPage path={path} /> : <TablePage path={path} />;

function TablePage({ path }: PlaceProps) {
  const openRoom = useOpenRoom();
  const object: ObjectRef = { kind: 'table', path };
  const read = useQuery({ queryKey: keyOf(object), queryFn: ({ signal }) => tableIn(client, path).get({ signal }) });
  return (
    <Reading read={read} what="table">
      {(record) => (
        <ObjectPage
          object={object}
          record={record}
          actions={
            <>
              <ExploreButton path={path} />
              <Button icon={<FileUp aria-hidden />} onClick={() => openRoom('load', path)}>
                Load a file
              </Button>
            </>
          }
          tabs={[
            { value: 'columns', label: 'Columns', content: <ColumnsTab path={path} record={record} /> },
            { value: 'rows', label: 'Sample rows', content: <SampleTab path={path} /> },
            exploreTab(path, record.columns),
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

const exploreTab = (path: readonly string[], columns: readonly Column[]) => ({
  value: 'explore',
  label: 'Column explorer',
  content: <TableColumns path={path} columns={columns} />,
});

function ExploreButton({ path, kind }: PlaceProps & { readonly kind?: 'view' }) {
  const openRoom = useOpenRoom();
  return (
    <Button
      icon={<Columns3 aria-hidden />}
      onClick={() => openRoom('catalog', path, { kind, tab: 'explore' }, { replace: true })}
    >
      Explore columns
    </Button>
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
          actions={<ExploreButton path={path} kind="view" />}
          tabs={[
            { value: 'columns', label: 'Columns', content: <ViewColumnsTab columns={record.columns} /> },
            { value: 'rows', label: 'Sample rows', content: <SampleTab path={path} /> },
            exploreTab(path, record.columns),
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
