// Operations that the top-level categories share.
import type { TObject } from '../standard/type.ts';
import { action, get, list } from './declare.ts';
import { NewName } from './fields.ts';

export const listAtTop = (summary: string) =>
  list({ summary, permission: { privilege: 'read', on: 'parent', orWithin: true } });

export const getAtTop = (summary: string) => get({ summary, permission: { privilege: 'read', on: 'object' } });

export const renameAtTop = <R extends TObject>(record: R, summary: string, newName: string) =>
  action('object', {
    summary,
    permission: { privilege: 'alter', on: 'object' },
    codes: ['CHANGE_IN_PROGRESS'],
    body: NewName,
    bodyRequired: true,
    result: record,
    example: { body: { newName } },
  });
