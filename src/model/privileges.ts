// The privileges, and how sets of them are kept: as bits, so that a decision is a look-up and an `and`.

export const privileges = ['read', 'write', 'alter', 'create', 'drop', 'use', 'operate', 'grant', 'own'] as const;
export type Privilege = (typeof privileges)[number];

export const privilegeDocs: Readonly<Record<Privilege, string>> = {
  read: 'See the object and what is in it: its record, its rows.',
  write: 'Change rows: insert, update, delete, truncate.',
  alter: 'Change and rename the object.',
  create: 'Create objects in it.',
  drop: 'Delete it.',
  use: 'Run statements in a warehouse.',
  operate: 'Suspend, resume, disable, enable; cancel what others run.',
  grant: 'Grant and revoke, of what one has oneself.',
  own: 'All of these.',
};

const bits = Object.fromEntries(privileges.map((name, i) => [name, 1 << i])) as Record<Privilege, number>;
export const allPrivileges = (1 << privileges.length) - 1;

/** `own` is all of them. */
export function bitOf(privilege: Privilege): number {
  return privilege === 'own' ? allPrivileges : bits[privilege];
}

/** Whether a set has a privilege; `own` is had only as such. */
export function holds(set: number, privilege: Privilege): boolean {
  return (set & bits[privilege]) !== 0;
}
