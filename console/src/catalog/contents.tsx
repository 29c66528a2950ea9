// The contents of a catalog or a database, as a table whose pages are fetched while the user scrolls.
import { Inbox } from 'lucide-react';
import { useMemo } from 'react';
import { usePages } from '../app/queries.ts';
import { useOpenRoom } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { type Column, DataTable } from '../ui/data/data_table.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Badge, EmptyState } from '../ui/feedback.tsx';
import { formatAgo, formatBytes, formatCount } from '../ui/format.ts';
import { PageBody } from '../ui/layout/page.tsx';
import { categoryOf, type ObjectKind, searchOf } from './object_ref.ts';

interface Item {
  readonly name: string;
  readonly comment: string | null;
  readonly owner: string;
  readonly updatedAt: string;
}
interface Placed extends Item {
  readonly warehouse: string;
  readonly state: string;
}
interface Counted extends Item {
  readonly tableCount: number;
  readonly viewCount: number;
}
interface Measured extends Item {
  readonly statistics: { readonly rowCount: number | null; readonly dataBytes: number | null };
}

const nameColumn = <R extends Item>(): Column<R> => ({
  id: 'name',
  header: 'Name',
  value: ({ name }) => name,
  render: ({ name }) => <strong>{name}</strong>,
});
const restColumns = <R extends Item>(): readonly Column<R>[] => [
  { id: 'comment', header: 'Comment', value: ({ comment }) => comment },
  { id: 'owner', header: 'Owner', value: ({ owner }) => owner },
  {
    id: 'updatedAt',
    header: 'Changed',
    value: ({ updatedAt }) => updatedAt,
    render: ({ updatedAt }) => formatAgo(updatedAt),
  },
];
const plainColumns: readonly Column<Item>[] = [nameColumn(), ...restColumns<Item>()];
const catalogColumns: readonly Column<Placed>[] = [
  nameColumn(),
  {
    id: 'state',
    header: 'State',
    value: ({ state }) => state,
    render: ({ state }) => <Badge tone={state === 'ready' ? 'success' : 'warning'}>{state}</Badge>,
  },
  { id: 'warehouse', header: 'Warehouse', value: ({ warehouse }) => warehouse },
  ...restColumns<Placed>(),
];
const databaseColumns: readonly Column<Counted>[] = [
  nameColumn(),
  count('tables', 'Tables', ({ tableCount }) => tableCount),
  count('views', 'Views', ({ viewCount }) => viewCount),
  ...restColumns<Counted>(),
];
const tableColumns: readonly Column<Measured>[] = [
  nameColumn(),
  count('rows', 'Rows', ({ statistics }) => statistics.rowCount),
  {
    ...count<Measured>('size', 'Size', ({ statistics }) => statistics.dataBytes),
    render: ({ statistics: { dataBytes } }) => (dataBytes === null ? '–' : formatBytes(dataBytes)),
  },
  ...restColumns<Measured>(),
];

function count<R>(id: string, header: string, value: (record: R) => number | null): Column<R> {
  const render = (record: R) => {
    const found = value(record);
    return found === null ? '–' : formatCount(found);
  };
  return { id, header, isNumber: true, value, render };
}

interface ContentsProps {
  readonly kind: ObjectKind;
  /** The names of the objects that contain them. */
  readonly parent: readonly string[];
}

const pageSize = 500;

export function Contents({ kind, parent }: ContentsProps) {
  const [catalog = '', database = ''] = parent;
  const inDatabase = client.catalogs(catalog).databases(database);
  switch (kind) {
    case 'catalog':
      return (
        <List
          kind={kind}
          parent={parent}
          columns={catalogColumns}
          fetchList={(signal) => client.catalogs.list({ pageSize }, { signal })}
          fetchPaths={(signal) => client.catalogs.browse({ pageSize }, { signal })}
        />
      );
    case 'database':
      return (
        <List
          kind={kind}
          parent={parent}
          columns={databaseColumns}
          fetchList={(signal) => client.catalogs(catalog).databases.list({ pageSize }, { signal })}
          fetchPaths={(signal) => client.catalogs(catalog).databases.browse({ pageSize }, { signal })}
        />
      );
    case 'table':
      return (
        <List
          kind={kind}
          parent={parent}
          columns={tableColumns}
          fetchList={(signal) => inDatabase.tables.list({ pageSize }, { signal })}
        />
      );
    case 'view':
      return (
        <List
          kind={kind}
          parent={parent}
          columns={plainColumns}
          fetchList={(signal) => inDatabase.views.list({ pageSize }, { signal })}
        />
      );
  }
}

interface ListProps<R> extends ContentsProps {
  readonly columns: readonly Column<R>[];
  readonly fetchList: Parameters<typeof usePages<R>>[1];
  /** Fetches the names of objects that the caller may not read but that contain readable ones; undefined for kinds without children. */
  readonly fetchPaths?: Parameters<typeof usePages<Browsed>>[1];
}

interface Browsed {
  readonly name: string;
  readonly readable: boolean;
}

/** Only the name is shown of an object that the caller may not read. */
function withUnread<R extends Item>({ value, render, ...column }: Column<R>): Column<R | Browsed> {
  const nameOf = ({ name }: Browsed) => (column.id === 'name' ? name : null);
  return {
    ...column,
    value: (record) => ('readable' in record ? nameOf(record) : value(record)),
    render: (record) => {
      if ('readable' in record) return nameOf(record) ?? '–';
      return render ? render(record) : value(record);
    },
  };
}

const noPaths = { page: async () => ({ items: [], nextPageToken: undefined }) };

function List<R extends Item>({ kind, parent, columns, fetchList, fetchPaths }: ListProps<R>) {
  const openRoom = useOpenRoom();
  const category = categoryOf[kind];
  const { items, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = usePages<R>(
    [category, 'list', ...parent],
    fetchList,
  );
  const paths = usePages<Browsed>([category, 'browse', ...parent], fetchPaths ?? (() => noPaths), {
    isEnabled: fetchPaths !== undefined && items !== undefined && !hasNextPage,
  });
  const unread = paths.items?.filter(({ readable }) => !readable) ?? [];
  const shownColumns = useMemo(() => columns.map(withUnread), [columns]);
  const failure = error ?? paths.error;
  if (failure)
    return (
      <PageBody label="Failure">
        <ErrorPanel
          error={failure}
          title={`The ${category} cannot be listed`}
          onRetry={error ? refetch : paths.refetch}
        />
      </PageBody>
    );
  return (
    <DataTable
      label={category}
      columns={shownColumns}
      records={items && !(items.length === 0 && paths.isLoading) ? [...items, ...unread] : undefined}
      keyOf={({ name }) => name}
      onOpen={({ name }) => openRoom('catalog', [...parent, name], searchOf(kind))}
      onEnd={hasNextPage && !isFetchingNextPage ? fetchNextPage : undefined}
      isFetchingMore={isFetchingNextPage || paths.isLoading}
      empty={
        <EmptyState icon={<Inbox aria-hidden />} title={`There are no ${category} that you may read`}>
          Create one, or ask for a grant.
        </EmptyState>
      }
    />
  );
}
