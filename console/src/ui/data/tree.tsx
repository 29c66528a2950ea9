// A virtual tree: the visible nodes as a flat list, of which only those in view are rendered. The arrow keys move as the ARIA pattern
// for trees says: up and down, right to open or go in, left to close or go out.
import { useVirtualizer } from '@tanstack/react-virtual';
import { ChevronRight } from 'lucide-react';
import { type KeyboardEvent, type ReactNode, useRef, useState } from 'react';
import { classNames } from '../class_names.ts';
import { Spinner } from '../feedback.tsx';
import styles from './tree.module.css';

export interface TreeNode {
  /** Unique in the tree. */
  readonly key: string;
  readonly depth: number;
  readonly label: string;
  readonly icon?: ReactNode;
  /** Beside the label, muted: a type, a count. */
  readonly detail?: string | undefined;
  /** A tooltip, such as a comment. */
  readonly title?: string | undefined;
  /** Undefined: it has no children. */
  readonly isOpen?: boolean | undefined;
  readonly isLoading?: boolean | undefined;
}

interface TreeProps<N extends TreeNode> {
  readonly label: string;
  readonly nodes: readonly N[];
  readonly onToggle: (node: N) => void;
  /** A click or Enter on a node. */
  readonly onSelect: (node: N) => void;
  /** Buttons at the end of a node, shown while it is hovered or has the focus. */
  readonly actionsOf?: (node: N) => ReactNode;
  /** Called with the nodes that are in view. */
  readonly onVisible?: (nodes: readonly N[]) => void;
}

const rowHeight = 26;
const coarseRowHeight = 40;
const isCoarse = matchMedia('(pointer: coarse)');

export function Tree<N extends TreeNode>(props: TreeProps<N>) {
  const { label, nodes, onToggle, onSelect, actionsOf, onVisible } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [focusedKey, setFocusedKey] = useState<string>();
  const virtualizer = useVirtualizer({
    count: nodes.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => (isCoarse.matches ? coarseRowHeight : rowHeight),
    overscan: 10,
    getItemKey: (index) => nodes[index]?.key ?? index,
    onChange: (instance) => {
      const visible = instance.getVirtualItems().flatMap(({ index }) => nodes[index] ?? []);
      onVisible?.(visible);
    },
  });
  const focusedIndex = Math.max(
    0,
    nodes.findIndex(({ key }) => key === focusedKey),
  );
  const focus = (index: number): void => {
    const node = nodes[Math.min(nodes.length - 1, Math.max(0, index))];
    if (!node) return;
    setFocusedKey(node.key);
    virtualizer.scrollToIndex(nodes.indexOf(node));
    requestAnimationFrame(() =>
      scroller.current?.querySelector<HTMLElement>(`[data-key="${CSS.escape(node.key)}"]`)?.focus(),
    );
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const node = nodes[focusedIndex];
    if (!node || !(event.target instanceof HTMLElement) || event.target.dataset.key === undefined) return;
    const move = keyMoves(event.key, nodes, focusedIndex);
    if (move === 'toggle') onToggle(node);
    else if (move === 'select') onSelect(node);
    else if (move !== undefined) focus(move);
    if (move !== undefined) event.preventDefault();
  };
  return (
    <div ref={scroller} className={styles.scroller}>
      <div
        role="tree"
        aria-label={label}
        className={styles.tree}
        style={{ height: virtualizer.getTotalSize() }}
        onKeyDown={onKeyDown}
      >
        {virtualizer.getVirtualItems().map(({ index, start, key }) => {
          const node = nodes[index];
          return (
            node && (
              <TreeRow
                key={key}
                node={node}
                start={start}
                isFocusable={index === focusedIndex}
                onToggle={() => onToggle(node)}
                onSelect={() => {
                  setFocusedKey(node.key);
                  onSelect(node);
                }}
                actions={actionsOf?.(node)}
              />
            )
          );
        })}
      </div>
    </div>
  );
}

/** What a key does: the index to move to, or an action on the focused node. */
function keyMoves(key: string, nodes: readonly TreeNode[], at: number): number | 'toggle' | 'select' | undefined {
  const node = nodes[at];
  const depth = node?.depth ?? 0;
  switch (key) {
    case 'ArrowDown':
      return at + 1;
    case 'ArrowUp':
      return at - 1;
    case 'Home':
      return 0;
    case 'End':
      return nodes.length - 1;
    case 'Enter':
    case ' ':
      return 'select';
    case 'ArrowRight':
      return node?.isOpen === false ? 'toggle' : at + 1;
    case 'ArrowLeft':
      return node?.isOpen ? 'toggle' : nodes.slice(0, at).findLastIndex((candidate) => candidate.depth < depth);
    default:
      return undefined;
  }
}

interface TreeRowProps {
  readonly node: TreeNode;
  readonly start: number;
  readonly isFocusable: boolean;
  readonly onToggle: () => void;
  readonly onSelect: () => void;
  readonly actions: ReactNode;
}

function TreeRow({ node, start, isFocusable, onToggle, onSelect, actions }: TreeRowProps) {
  const { key, depth, label, icon, detail, title, isOpen, isLoading } = node;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the tree handles the keys of all its nodes
    <div
      role="treeitem"
      aria-level={depth + 1}
      aria-expanded={isOpen}
      aria-selected={isFocusable}
      data-key={key}
      tabIndex={isFocusable ? 0 : -1}
      title={title}
      className={styles.row}
      style={{ transform: `translateY(${start}px)`, paddingLeft: 6 + depth * 14 }}
      onClick={onSelect}
    >
      {isOpen === undefined ? (
        <span className={styles.noToggle} />
      ) : (
        // biome-ignore lint/a11y/noStaticElementInteractions lint/a11y/useKeyWithClickEvents: the arrow keys open and close nodes
        <span
          className={classNames(styles.toggle, isOpen && styles.opened)}
          onClick={(event) => {
            event.stopPropagation();
            onToggle();
          }}
        >
          <ChevronRight aria-hidden />
        </span>
      )}
      {icon}
      <span className={styles.label}>{label}</span>
      {isLoading ? <Spinner /> : detail !== undefined && <span className={styles.detail}>{detail}</span>}
      {actions !== undefined && <span className={styles.actions}>{actions}</span>}
    </div>
  );
}
