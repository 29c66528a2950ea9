// What is made of a table or a view, and what a view is made of, as links to their pages.
import { useQuery } from '@tanstack/react-query';
import { RoomLink } from '../../app/room_path.tsx';
import { client } from '../../app/session.ts';
import { ErrorPanel } from '../../ui/error_panel.tsx';
import { EmptyState, Loading } from '../../ui/feedback.tsx';
import { formatCount } from '../../ui/format.ts';
import { PageBody } from '../../ui/layout/page.tsx';
import { type ObjectRef, refOfUri, searchOf } from '../object_ref.ts';
import styles from './dependents_tab.module.css';

export function DependentsTab({ object: { kind, path } }: { readonly object: ObjectRef }) {
  const [catalog = '', database = '', name = ''] = path;
  const { data, error, refetch } = useQuery({
    queryKey: ['views', 'dependents', kind, ...path],
    queryFn: ({ signal }) => {
      const inDatabase = client.catalogs(catalog).databases(database);
      return kind === 'view'
        ? inDatabase.views(name).dependents({}, { signal })
        : inDatabase.tables(name).dependents({}, { signal });
    },
  });
  if (error)
    return (
      <PageBody label="Failure">
        <ErrorPanel error={error} title="The dependents cannot be shown" onRetry={refetch} />
      </PageBody>
    );
  if (data === undefined) return <Loading />;
  return <DependencyList label="Dependents" uris={data.views} otherCount={data.otherViews} />;
}

interface DependencyListProps {
  readonly label: string;
  readonly uris: readonly string[];
  /** How many there are that cannot be shown. */
  readonly otherCount?: number;
}

export function DependencyList({ label, uris, otherCount = 0 }: DependencyListProps) {
  if (uris.length === 0 && otherCount === 0) return <EmptyState title="None">No view is made of it.</EmptyState>;
  return (
    <PageBody label={label}>
      <ul className={styles.list}>
        {uris.map((uri) => {
          const ref = refOfUri(uri);
          return (
            <li key={uri}>
              {ref ? (
                <RoomLink room="catalog" names={ref.path} search={searchOf(ref.kind)}>
                  {ref.path.join('.')}
                </RoomLink>
              ) : (
                uri
              )}
            </li>
          );
        })}
      </ul>
      {otherCount > 0 && <p>{formatCount(otherCount)} more, which you may not read.</p>}
    </PageBody>
  );
}
