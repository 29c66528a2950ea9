// The record of a user, and the fields of bodies that change one.
import { strictObject, Type } from '../../standard/type.ts';
import { Comment, nullable, Owner, PropertiesField, recordFields } from '../fields.ts';
import { enabledState } from '../states.ts';

export const Identity = strictObject(
  {
    provider: Type.String({ maxLength: 128, description: 'Name of an identity provider.' }),
    subject: Type.String({ minLength: 1, maxLength: 512, description: 'The `sub` of the user at the provider.' }),
  },
  { title: 'UserIdentity' },
);

export const Password = Type.String({
  maxLength: 1024,
  description: 'At least 8 characters. It is stored as an argon2id hash and never returned.',
});

export const UserRecord = Type.Object({
  name: Type.String(),
  comment: nullable(Comment),
  properties: PropertiesField,
  disabled: Type.Boolean({ description: 'Whether all its credentials are refused.' }),
  hasPassword: Type.Boolean(),
  identity: nullable(Identity),
  roles: Type.Array(Type.String(), { description: 'The names of its roles.' }),
  ...enabledState,
  owner: Owner,
  ...recordFields,
});
