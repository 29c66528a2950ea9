// What changes: the kinds of changes that caches follow. A change names its rows and has their contents as of the change or later, so that
// followers need not read them.
import type { Selectable } from 'kysely';
import type { GrantsTable, TaskState, TokensTable } from '../schema.ts';

/** An object was created, altered, hidden, shown again or deleted, or its statistics changed. */
export interface ObjectChange {
  readonly kind: 'object';
  readonly objectId: string;
  readonly parentId: string | null;
  readonly category: string;
  /** The paths or the owners of its descendants changed too. */
  readonly deep: boolean;
  /** Undefined: it was deleted. */
  readonly object: ChangedObject | undefined;
}

export interface ChangedObject {
  readonly name: string;
  /** False while it is being dropped or restored, and while it is dropped and can be restored: its grants are retained without effect. */
  readonly isVisible: boolean;
  /** Recovery has given up on an interrupted change of it. */
  readonly isBlocked: boolean;
  /** JSON; always present for users. */
  readonly spec?: string | undefined;
}

export interface GrantChange {
  readonly kind: 'grant';
  readonly granteeId: string;
  readonly grantId: string;
  /** Undefined: it was revoked. */
  readonly grant: Selectable<GrantsTable> | undefined;
}

export interface MembersChange {
  readonly kind: 'members';
  readonly roleId: string;
  /** Ids of all members. */
  readonly userIds: readonly string[];
}

export interface TokenChange {
  readonly kind: 'token';
  readonly tokenId: string;
  readonly digest: string;
  /** Undefined: it was deleted. */
  readonly token: Selectable<TokensTable> | undefined;
}

/** A task ended, or is to be cancelled. Only in the feed of a shared store: a single server needs none. */
export interface TaskChange {
  readonly kind: 'task';
  readonly taskId: string;
  readonly state: TaskState;
}

/** The server that moves a catalog asks the others something (moves/). Only in the feed of a shared store. */
export interface MoveChange {
  readonly kind: 'move';
  readonly taskId: string;
}

/**
 * What a server found of a replica (engines/cluster/replica_notices.ts). `behind`: it may lack what was acknowledged; `reading`: the server
 * will read it. Only in the feed of a shared store.
 */
export interface ReplicaChange {
  readonly kind: 'replica';
  readonly warehouseId: string;
  readonly backend: string;
  readonly finding: 'behind' | 'reading';
}

export type Change = ObjectChange | GrantChange | MembersChange | TokenChange | TaskChange | MoveChange | ReplicaChange;

/** What the store keeps of a change: which rows changed, without their contents. */
export type ChangeNotice =
  | Omit<ObjectChange, 'object'>
  | Omit<GrantChange, 'grant'>
  | Omit<MembersChange, 'userIds'>
  | Omit<TokenChange, 'token'>
  | TaskChange
  | MoveChange
  | ReplicaChange;

/** Equal for changes of the same rows. */
export function keyOf(notice: ChangeNotice): string {
  switch (notice.kind) {
    case 'object':
      return `object ${notice.objectId}`;
    case 'grant':
      return `grant ${notice.granteeId} ${notice.grantId}`;
    case 'members':
      return `members ${notice.roleId}`;
    case 'token':
      return `token ${notice.tokenId}`;
    case 'task':
      return `task ${notice.taskId}`;
    case 'move':
      return `move ${notice.taskId}`;
    case 'replica':
      return `replica ${notice.warehouseId} ${notice.finding} ${notice.backend}`;
  }
}

export function noticeOf(change: Change): ChangeNotice {
  switch (change.kind) {
    case 'object': {
      const { object: _object, ...notice } = change;
      return notice;
    }
    case 'grant': {
      const { grant: _grant, ...notice } = change;
      return notice;
    }
    case 'members': {
      const { userIds: _userIds, ...notice } = change;
      return notice;
    }
    case 'token': {
      const { token: _token, ...notice } = change;
      return notice;
    }
    case 'task':
    case 'move':
    case 'replica':
      return change;
  }
}
