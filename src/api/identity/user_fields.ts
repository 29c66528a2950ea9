// The record of a user, and the fields of bodies that change one.
import { Type } from '../../standard/type.ts';
import { Comment, nullable, Owner, PropertiesField, recordFields } from '../fields.ts';
import { enabledState } from '../states.ts';

export const Identity = Type.Object(
  {
    provider: Type.String({ maxLength: 128, description: 'Name of an identity provider.' }),
    subject: Type.String({ minLength: 1, maxLength: 512, description: 'Its `sub` of the user.' }),
  },
  { title: 'UserIdentity', additionalProperties: false },
);

export const Password = Type.String({
  maxLength: 1024,
  description: 'At least 8 characters. It is stored as an argon2id hash, and never shown.',
});

export const UserRecord = Type.Object({
  name: Type.String(),
  comment: nullable(Comment),
  properties: PropertiesField,
  disabled: Type.Boolean({ description: 'Whether all its credentials are refused.' }),
  hasPassword: Type.Boolean(),
  identity: nullable(Identity),
  roles: Type.Array(Type.String(), { description: 'Names of the roles that it is a member of.' }),
  ...enabledState,
  owner: Owner,
  ...recordFields,
});
