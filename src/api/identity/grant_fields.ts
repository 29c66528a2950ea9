// Fields of grants that several operations show.
import { privilegeDocs, privileges } from '../../model/privileges.ts';
import { documentedLimits } from '../../standard/documented_limits.ts';
import { Type } from '../../standard/type.ts';
import { oneOf } from '../fields.ts';

export const PrivilegeField = oneOf(
  privileges,
  { title: 'Privilege', description: 'The privilege that is granted.' },
  privilegeDocs,
);

export const GrantFields = {
  grantId: Type.String({ description: 'Grants of the same privilege on the same object have the same id.' }),
  privilege: PrivilegeField,
  on: Type.String({ description: 'The current URI of the object of the grant.' }),
};

export const On = Type.String({
  minLength: 1,
  maxLength: 4096,
  [documentedLimits]: { pattern: '^/api/v[0-9]+(/|$)' },
  description: 'The URI of an object or of a top-level collection (`/api/v2/users`), or `/api/v2` for everything.',
});
