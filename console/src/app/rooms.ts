// The rooms of the console, in the order of the rail: a room is a path, a label, an icon and the module whose `Room` it renders.
// A new room is one line here; its module is loaded when it is first opened.
import {
  FileUp,
  History,
  House,
  Library,
  ListChecks,
  type LucideIcon,
  Server,
  ShieldCheck,
  SquareTerminal,
} from 'lucide-react';
import type { ComponentType } from 'react';

export interface RoomModule {
  readonly Room: ComponentType;
}

export interface RoomEntry {
  /** One segment below /console/; the room gets the rest of the path from `useRoomPath`. */
  readonly path: string;
  readonly label: string;
  readonly icon: LucideIcon;
  readonly load: () => Promise<RoomModule>;
}

export const rooms: readonly RoomEntry[] = [
  { path: 'start', label: 'Start', icon: House, load: () => import('../start/start_room.tsx') },
  { path: 'sql', label: 'SQL', icon: SquareTerminal, load: () => import('../editor/editor_room.tsx') },
  { path: 'catalog', label: 'Catalog', icon: Library, load: () => import('../catalog/catalog_room.tsx') },
  { path: 'load', label: 'Load', icon: FileUp, load: () => import('../load/load_room.tsx') },
  { path: 'tasks', label: 'Tasks', icon: ListChecks, load: () => import('../tasks/tasks_room.tsx') },
  {
    path: 'warehouses',
    label: 'Warehouses',
    icon: Server,
    load: () => import('../warehouses/warehouses_room.tsx'),
  },
  { path: 'history', label: 'History', icon: History, load: () => import('../history/history_room.tsx') },
  { path: 'access', label: 'Access', icon: ShieldCheck, load: () => import('../access/access_room.tsx') },
];
