// The tree of what one may read: catalogs, databases, tables and views, columns. It is lazy, virtual, and searched as one types.
import { useQuery } from '@tanstack/react-query';
import {
  Columns3,
  Database,
  Eye,
  KeyRound,
  Library,
  RefreshCw,
  SquareArrowOutUpRight,
  Table2,
  TextCursorInput,
} from 'lucide-react';
import { type MouseEvent, useDeferredValue, useEffect, useMemo, useState, useSyncExternalStore } from 'react';
import { useOpenRoom } from '../app/room_path.tsx';
import { IconButton } from '../ui/button.tsx';
import { Tree, type TreeNode } from '../ui/data/tree.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { EmptyState, Loading } from '../ui/feedback.tsx';
import { formatBytes, formatCount, formatShortCount } from '../ui/format.ts';
import { SearchBar } from '../ui/search_bar.tsx';
import styles from './explorer.module.css';
import { type ExplorerObject, keyOf, type ObjectKind, objectsStore, searchObjects } from './objects_store.ts';

interface ExplorerNode extends TreeNode {
  /** Undefined: the line that stands for the rest of a list. */
  readonly object: ExplorerObject | undefined;
  readonly parent: ExplorerObject | undefined;
}

interface ExplorerProps {
  /** A click on a table, a view or a column, or the button at its end. Without it, a click on any object opens it. */
  readonly onInsert?: (object: ExplorerObject) => void;
  /** Called when the page of an object was opened. */
  readonly onOpened?: () => void;
}

const searchPauseMs = 200;

interface TreeActions {
  readonly onInsert: ExplorerProps['onInsert'];
  readonly onOpen: (object: ExplorerObject) => void;
}

export function Explorer({ onInsert, onOpened }: ExplorerProps) {
  const openRoom = useOpenRoom();
  const onOpen = ({ kind, path }: ExplorerObject): void => {
    if (kind === 'column') openRoom('catalog', path.slice(0, -1), { tab: 'columns' });
    else openRoom('catalog', path, kind === 'view' ? { kind } : {});
    onOpened?.();
  };
  const actions = { onInsert, onOpen };
  const [text, setText] = useState('');
  const searchText = useDeferredValue(text.trim());
  return (
    <div className={styles.explorer}>
      <SearchBar label="Search tables and views" text={text} onChange={setText}>
        <IconButton size="small" label="Refresh" onClick={() => objectsStore.refresh()}>
          <RefreshCw aria-hidden />
        </IconButton>
      </SearchBar>
      {searchText === '' ? <CatalogTree {...actions} /> : <Found text={searchText} {...actions} />}
    </div>
  );
}

const icons: Readonly<Record<ObjectKind, React.ReactNode>> = {
  catalog: <Library aria-hidden />,
  database: <Database aria-hidden />,
  table: <Table2 aria-hidden />,
  view: <Eye aria-hidden />,
  column: <Columns3 aria-hidden />,
};

const storageKey = 'tabularium.explorer.open';

function storedOpenKeys(): ReadonlySet<string> {
  try {
    return new Set(JSON.parse(sessionStorage.getItem(storageKey) ?? '[]') as string[]);
  } catch {
    return new Set();
  }
}

function CatalogTree(actions: TreeActions) {
  const version = useSyncExternalStore(objectsStore.subscribe, objectsStore.version);
  const [open, setOpen] = useState(storedOpenKeys);
  useEffect(() => sessionStorage.setItem(storageKey, JSON.stringify([...open])), [open]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the version says that the store has changed
  const nodes = useMemo(() => visibleNodes(open), [open, version]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: as above; what is open and not read yet is read
  useEffect(() => {
    const parents = [undefined, ...nodes.flatMap(({ object, isOpen }) => (object && isOpen ? [object] : []))];
    for (const parent of parents) {
      const { items, isLoading, error } = objectsStore.childrenOf(parent);
      if (items.length === 0 && !isLoading && error === undefined) void objectsStore.loadMore(parent);
    }
  }, [nodes, version]);
  const toggle = ({ key, object }: ExplorerNode): void => {
    if (!object || object.kind === 'column') return;
    const next = new Set(open);
    if (!next.delete(key)) next.add(key);
    setOpen(next);
  };
  const root = objectsStore.childrenOf(undefined);
  if (root.error !== undefined)
    return (
      <div className={styles.message}>
        <ErrorPanel
          error={root.error}
          title="The catalogs could not be listed"
          onRetry={() => objectsStore.refresh()}
        />
      </div>
    );
  if (nodes.length === 0) return root.hasMore ? <Loading /> : <EmptyState title="There is nothing that you may read" />;
  return (
    <Tree
      label="Catalog"
      nodes={nodes}
      onToggle={toggle}
      onSelect={(node) => {
        const { object } = node;
        if (!object) void objectsStore.loadMore(node.parent);
        else if (object.kind !== 'catalog' && object.kind !== 'database') (actions.onInsert ?? actions.onOpen)(object);
        else {
          if (!actions.onInsert) actions.onOpen(object);
          if (actions.onInsert || !node.isOpen) toggle(node);
        }
      }}
      onVisible={(visible) => {
        for (const { object, parent, key } of visible)
          if (!object && key.endsWith('more')) void objectsStore.loadMore(parent);
      }}
      actionsOf={(node) => buttonsOf(node, actions)}
    />
  );
}

function buttonsOf({ object }: ExplorerNode, { onInsert, onOpen }: TreeActions) {
  if (!object || !onInsert) return undefined;
  const run = (action: (chosen: ExplorerObject) => void) => (event: MouseEvent) => {
    event.stopPropagation();
    action(object);
  };
  return (
    <>
      <IconButton size="small" label={`Open the page of ${object.name}`} tabIndex={-1} onClick={run(onOpen)}>
        <SquareArrowOutUpRight aria-hidden />
      </IconButton>
      {object.kind !== 'catalog' && (
        <IconButton size="small" label={`Insert ${object.name}`} tabIndex={-1} onClick={run(onInsert)}>
          <TextCursorInput aria-hidden />
        </IconButton>
      )}
    </>
  );
}

function visibleNodes(open: ReadonlySet<string>): ExplorerNode[] {
  const nodes: ExplorerNode[] = [];
  const visit = (parent: ExplorerObject | undefined, depth: number): void => {
    const { items, hasMore, isLoading, error } = objectsStore.childrenOf(parent);
    for (const object of items) {
      const node = nodeOf(object, depth, open);
      nodes.push(node);
      if (node.isOpen) visit(object, depth + 1);
    }
    const key = `${keyOf(parent?.path ?? [], parent?.kind)} `;
    if (error !== undefined)
      nodes.push(lineOf(`${key}failed`, 'Could not be listed; select to try again', parent, depth));
    else if (hasMore && parent && (isLoading || items.length > 0))
      nodes.push({ ...lineOf(`${key}more`, 'Loading more', parent, depth), isLoading: true });
    else if (parent && !hasMore && items.length === 0) nodes.push(lineOf(`${key}none`, 'Empty', parent, depth));
  };
  visit(undefined, 0);
  return nodes;
}

const lineOf = (key: string, label: string, parent: ExplorerObject | undefined, depth: number): ExplorerNode => ({
  key,
  label,
  depth,
  object: undefined,
  parent,
});

/** Of objects that are not open: a database may have a hundred thousand of them, and most do not change between two renderings. */
const closedNodes = new WeakMap<ExplorerObject, ExplorerNode>();

function nodeOf(object: ExplorerObject, depth: number, open: ReadonlySet<string>): ExplorerNode {
  const closed = closedNodes.get(object) ?? closedNodeOf(object, depth);
  closedNodes.set(object, closed);
  return closed.isOpen === undefined || !open.has(closed.key) ? closed : { ...closed, isOpen: true };
}

function closedNodeOf(object: ExplorerObject, depth: number): ExplorerNode {
  const { kind, path, name, comment } = object;
  const key = keyOf(path, kind);
  return {
    key,
    depth,
    label: name,
    icon: object.isKey ? <KeyRound aria-hidden /> : icons[kind],
    detail: detailOf(object),
    title: titleOf(object, comment),
    isOpen: kind === 'column' ? undefined : false,
    object,
    parent: undefined,
  };
}

function detailOf({ kind, type, rowCount, objectCount }: ExplorerObject): string | undefined {
  if (kind === 'column') return type;
  if (kind === 'database') return objectCount === undefined ? undefined : formatShortCount(objectCount);
  if (kind === 'table') return rowCount == null ? undefined : `${formatShortCount(rowCount)} rows`;
  return undefined;
}

function titleOf({ path, type, rowCount, dataBytes }: ExplorerObject, comment: string | null): string {
  const facts = [
    path.join('.'),
    type,
    rowCount == null ? undefined : `${formatCount(rowCount)} rows`,
    dataBytes == null ? undefined : formatBytes(dataBytes),
  ].filter((fact) => fact !== undefined);
  return [facts.join(' · '), comment].filter(Boolean).join('\n');
}

function Found({ text, onInsert, onOpen }: TreeActions & { readonly text: string }) {
  const { data, error, refetch, isFetching } = useQuery({
    queryKey: ['objects', 'search', text],
    queryFn: async ({ signal }) => {
      await new Promise((resolve) => setTimeout(resolve, searchPauseMs));
      signal.throwIfAborted();
      return searchObjects(text, signal);
    },
    placeholderData: (previous) => previous,
  });
  const nodes = useMemo(
    () =>
      (data ?? []).map((object): ExplorerNode => {
        const node = nodeOf(object, 0, new Set());
        return { ...node, isOpen: undefined, detail: object.path.slice(0, -1).join('.') };
      }),
    [data],
  );
  if (error) return <ErrorPanel error={error} title="The search failed" onRetry={refetch} />;
  if (data === undefined) return <Loading label="Searching…" />;
  if (nodes.length === 0 && !isFetching)
    return <EmptyState title="Nothing found">No table or view has “{text}” in its name.</EmptyState>;
  return (
    <Tree
      label="Found"
      nodes={nodes}
      onToggle={() => undefined}
      onSelect={({ object }) => object && (onInsert ?? onOpen)(object)}
    />
  );
}
