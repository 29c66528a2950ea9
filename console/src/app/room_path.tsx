// Addresses inside the console: a room and the names below it, as in /console/catalog/default/ssb/lineorder. Names are encoded here.
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import type { ReactNode } from 'react';

export type Search = Readonly<Record<string, string | undefined>>;

/** The segments of the path below the room, decoded. */
export function useRoomPath(): readonly string[] {
  const { _splat: rest } = useParams({ strict: false });
  return rest === undefined || rest === '' ? [] : rest.split('/').map(decodeURIComponent);
}

/** The search parameters of the address. */
export const useRoomSearch = (): Search => useSearch({ strict: false });

const roomAddress = (room: string, names: readonly string[] = []): string =>
  `/${[room, ...names.map(encodeURIComponent)].join('/')}`;

export function useOpenRoom() {
  const navigate = useNavigate();
  return (room: string, names: readonly string[] = [], search: Search = {}, { replace = false } = {}): Promise<void> =>
    navigate({ to: roomAddress(room, names), search, replace });
}

interface RoomLinkProps {
  readonly room: string;
  readonly names?: readonly string[];
  readonly search?: Search;
  readonly className?: string | undefined;
  readonly title?: string;
  readonly children: ReactNode;
}

export function RoomLink({ room, names = [], search = {}, className, title, children }: RoomLinkProps) {
  return (
    <Link to={roomAddress(room, names)} search={search} className={className} title={title}>
      {children}
    </Link>
  );
}
