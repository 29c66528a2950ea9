// Fields of grants that several operations show.
import { privilegeDocs, privileges } from '../../model/privileges.ts';
import { Type } from '../../standard/type.ts';
import { oneOf } from '../fields.ts';

export const PrivilegeField = oneOf(privileges, { title: 'Privilege', description: 'What it allows.' }, privilegeDocs);

export const GrantFields = {
  grantId: Type.String({ description: 'The same for the same privilege on the same object.' }),
  privilege: PrivilegeField,
  on: Type.String({ description: 'Current URI of the object of the grant.' }),
};
