// The commands that the palette offers besides those that every page has: the rooms register theirs while they are shown.
import type { LucideIcon } from 'lucide-react';
import { useEffect, useRef, useSyncExternalStore } from 'react';

export interface Command {
  readonly label: string;
  readonly icon: LucideIcon;
  /** As in `Ctrl+Enter`. */
  readonly keys?: string;
  readonly onSelect: () => void;
}

let registered: readonly Command[] = [];
const listeners = new Set<() => void>();

function change(next: readonly Command[]): void {
  registered = next;
  for (const listener of listeners) listener();
}

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => void listeners.delete(listener);
};

export const useRegisteredCommands = (): readonly Command[] => useSyncExternalStore(subscribe, () => registered);

/** Offers commands as long as the component is shown. Their labels do not change; what they do is that of the last rendering. */
export function useCommands(commands: readonly Command[]): void {
  const latest = useRef(commands);
  latest.current = commands;
  useEffect(() => {
    const own = latest.current.map((command, i) => ({ ...command, onSelect: () => latest.current[i]?.onSelect() }));
    change([...registered, ...own]);
    return () => change(registered.filter((command) => !own.includes(command)));
  }, []);
}
