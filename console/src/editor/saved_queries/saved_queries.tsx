// Saved queries beside the catalog: searched as one types, by folder, opened in a tab; and the dialog that saves the active tab.

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { FileCode2, Link2 } from 'lucide-react';
import { useDeferredValue, useMemo, useState } from 'react';
import type { Client } from '../../../../src/client/index.ts';
import { usePages } from '../../app/queries.ts';
import { client } from '../../app/session.ts';
import { Button, IconButton } from '../../ui/button.tsx';
import { copyText } from '../../ui/clipboard.ts';
import { Tree, type TreeNode } from '../../ui/data/tree.tsx';
import { ErrorPanel } from '../../ui/error_panel.tsx';
import { EmptyState, Loading } from '../../ui/feedback.tsx';
import { Field, TextInput } from '../../ui/field.tsx';
import { Dialog } from '../../ui/overlays/dialog.tsx';
import { showToast } from '../../ui/overlays/toasts.tsx';
import { SearchBar } from '../../ui/search_bar.tsx';
import { bodyOf, type Tab, type TabContent } from '../tabs/tab.ts';
import { tabsStore } from '../tabs/tabs_store.ts';
import styles from './saved_queries.module.css';

type SavedQuery = Awaited<ReturnType<ReturnType<Client['savedQueries']>['get']>>;

export const contentOfSaved = ({
  name,
  sql,
  catalog,
  database,
  parameters,
  chart,
}: SavedQuery): Partial<TabContent> => ({
  name,
  sql,
  place: { catalog: catalog ?? 'default', database: database ?? undefined },
  parameters,
  chart,
  savedQuery: name,
});

/** The address that opens a saved query for whoever may read it. */
export const linkTo = (name: string): string =>
  `${location.origin}/console/sql?${new URLSearchParams({ query: name })}`;

interface QueryNode extends TreeNode {
  readonly query: SavedQuery | undefined;
}

const pageSize = 200;

export function SavedQueries({ onOpened }: { readonly onOpened: () => void }) {
  const [text, setText] = useState('');
  const searchText = useDeferredValue(text.trim());
  const { items, error, refetch, hasNextPage, fetchNextPage } = usePages(['savedQueries', searchText], (signal) =>
    searchText === ''
      ? client.savedQueries.list({ pageSize }, { signal })
      : client.savedQueries.search(
          { namePattern: `%${searchText.replaceAll(/[\\%_]/g, '\\$&')}%`, pageSize },
          { signal },
        ),
  );
  const nodes = useMemo(() => nodesOf(items ?? []), [items]);
  return (
    <div className={styles.panel}>
      <SearchBar label="Search saved queries" text={text} onChange={setText} />
      {error ? (
        <ErrorPanel error={error} title="The saved queries could not be listed" onRetry={refetch} />
      ) : items === undefined ? (
        <Loading />
      ) : items.length === 0 ? (
        <EmptyState
          icon={<FileCode2 aria-hidden />}
          title={searchText === '' ? 'No saved queries yet' : 'Nothing found'}
        >
          {searchText === '' && 'Save a query to find it again and to share it.'}
        </EmptyState>
      ) : (
        <Tree
          label="Saved queries"
          nodes={nodes}
          onToggle={() => undefined}
          onSelect={({ query }) => {
            if (!query) return;
            tabsStore.open(contentOfSaved(query));
            onOpened();
          }}
          onVisible={(visible) => {
            if (hasNextPage && visible.at(-1) === nodes.at(-1)) void fetchNextPage();
          }}
          actionsOf={({ query }) => query && <LinkAction name={query.name} />}
        />
      )}
    </div>
  );
}

function LinkAction({ name }: { readonly name: string }) {
  return (
    <IconButton
      size="small"
      tabIndex={-1}
      label={`Copy a link to ${name}`}
      onClick={(event) => {
        event.stopPropagation();
        void copyText(linkTo(name)).then(() =>
          showToast('Link copied', 'It opens the query for everybody who may read it.'),
        );
      }}
    >
      <Link2 aria-hidden />
    </IconButton>
  );
}

/** Queries without a folder first, then each folder with its queries. */
function nodesOf(queries: readonly SavedQuery[]): QueryNode[] {
  const folders = Map.groupBy(queries, ({ folder }) => folder ?? '');
  return [...folders]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([folder, own]) => [
      ...(folder === '' ? [] : [{ key: `folder ${folder}`, depth: 0, label: folder, isOpen: true, query: undefined }]),
      ...own.map((query) => ({
        key: query.name,
        depth: folder === '' ? 0 : 1,
        label: query.name,
        icon: <FileCode2 aria-hidden />,
        detail: query.owner,
        title: query.comment ?? query.sql.slice(0, 300),
        query,
      })),
    ]);
}

interface SaveDialogProps {
  readonly tab: Tab;
  readonly onClose: () => void;
}

export function SaveDialog({ tab, onClose }: SaveDialogProps) {
  const queries = useQueryClient();
  const [name, setName] = useState(tab.savedQuery ?? tab.name.toLowerCase().replaceAll(/[^a-z0-9_]+/g, '_'));
  const [folder, setFolder] = useState('');
  const isUpdate = name === tab.savedQuery;
  const save = useMutation({
    mutationFn: async () => {
      const { sql, parameters, catalog, database } = bodyOf(tab);
      const content = {
        sql,
        parameters,
        catalog,
        database,
        chart: tab.chart as Record<string, unknown> | null,
        ...(folder.trim() === '' ? {} : { folder: folder.trim() }),
      };
      return isUpdate ? client.savedQueries(name).update(content) : client.savedQueries.create({ name, ...content });
    },
    onSuccess: () => {
      tabsStore.update(tab.id, { savedQuery: name, name });
      void queries.invalidateQueries({ queryKey: ['savedQueries'] });
      showToast(isUpdate ? `${name} saved` : `${name} created`);
      onClose();
    },
  });
  return (
    <Dialog
      isOpen
      title="Save the query"
      description="Others see it when a grant lets them; the text before stays in its versions."
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" disabled={save.isPending || name.trim() === ''} onClick={() => save.mutate()}>
            {isUpdate ? 'Save' : 'Create'}
          </Button>
        </>
      }
    >
      <Field label="Name">
        <TextInput value={name} onChange={setName} autoFocus />
      </Field>
      <Field label="Folder" description="Optional, such as finance/monthly.">
        <TextInput value={folder} onChange={setFolder} />
      </Field>
      {save.error && <ErrorPanel error={save.error} />}
    </Dialog>
  );
}
