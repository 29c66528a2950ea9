// The privileges. Sets of them are bit masks, so that a decision is a lookup and a bitwise AND.

export const privileges = ['read', 'write', 'alter', 'create', 'drop', 'use', 'operate', 'grant', 'own'] as const;
export type Privilege = (typeof privileges)[number];

export const privilegeDocs: Readonly<Record<Privilege, string>> = {
  read: 'Read the object and its descendants: records and rows.',
  write: 'Change rows: insert, update, delete, truncate.',
  alter: 'Change and rename the object.',
  create: 'Create child objects.',
  drop: 'Delete the object.',
  use: 'Run statements in a warehouse.',
  operate: 'Suspend, resume, disable, enable; cancel statements and tasks of others.',
  grant: 'Grant and revoke privileges that the grantor has.',
  own: 'All other privileges.',
};

const bits = Object.fromEntries(privileges.map((name, i) => [name, 1 << i])) as Record<Privilege, number>;
const allPrivileges = (1 << privileges.length) - 1;

/** The bit mask of a privilege; `own` includes all. */
export function bitOf(privilege: Privilege): number {
  return privilege === 'own' ? allPrivileges : bits[privilege];
}

/** Whether a set contains a privilege; `own` only if it was granted as such. */
export function holds(set: number, privilege: Privilege): boolean {
  return (set & bits[privilege]) !== 0;
}
