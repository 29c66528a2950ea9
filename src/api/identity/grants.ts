// The declaration of grants: the same category in users and in roles.
import { strictObject, Type } from '../../standard/type.ts';
import { action, category, create, type DeclaredCategory, get, list, remove } from '../declare.ts';
import { nullable, recordFields } from '../fields.ts';
import { searchBy } from '../search.ts';
import { stateField } from '../states.ts';
import { GrantFields, On, PrivilegeField } from './grant_fields.ts';
import { rolesApi } from './roles.ts';
import { usersApi } from './users.ts';

const checksMax = 1000;

const GrantRecord = Type.Object({
  ...GrantFields,
  isDropped: Type.Optional(
    Type.Boolean({ description: 'The object of the grant was dropped and can be restored; `on` is its former URI.' }),
  ),
  state: stateField({
    active: 'it is in effect',
    dropped: 'its object was dropped; it takes effect again when the object is restored',
  }),
  ...recordFields,
});

const Check = strictObject({ privilege: PrivilegeField, on: On }, { title: 'GrantCheck' });

const CheckResult = Type.Object({
  privilege: PrivilegeField,
  on: Type.String(),
  allowed: Type.Boolean(),
  by: nullable(
    Type.Object(
      {
        kind: Type.String({ description: '`grant`, `owner` or `root`.' }),
        grant: nullable(Type.String({ description: 'The URI of the grant.' })),
      },
      { title: 'GrantReason' },
    ),
  ),
});

const example = {
  grantId: 'read-019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d',
  privilege: 'read',
  on: '/api/v2/catalogs/default/databases/ssb',
  state: 'active',
  createdAt: '2026-01-31T10:00:00.000Z',
  createdBy: 'root',
  updatedAt: '2026-01-31T10:00:00.000Z',
  updatedBy: 'root',
  version: 1,
};

const caller =
  'The caller needs `grant` and the granted privilege itself on the object of the grant, and `read` on the';

/** `self`: the caller may see its own grants. */
const grantsOf = <const P extends DeclaredCategory>(parent: P, self: { readonly orSelf?: true }) => {
  const { name, singular } = parent;
  return category({
    name: 'grants',
    singular: 'grant',
    title: `Grants of ${name}`,
    doc: `The privileges of a ${singular}.`,
    parameter: 'grantId',
    idField: 'grantId',
    parent,
    record: GrantRecord,
    example: { ...example, uri: `/api/v2/${name}/analysts/grants/read-019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d` },
    endpoints: {
      list: list({
        summary: `Lists the grants of a ${singular}.`,
        permission: { privilege: 'read', on: 'parent', ...self },
      }),
      get: get({
        summary: 'Shows a grant.',
        permission: { privilege: 'read', on: 'object', ...self },
      }),
      search: searchBy({
        category: 'grants',
        summary: `Finds grants of a ${singular} by privilege and by object.`,
        permission: { privilege: 'read', on: 'parent', ...self },
        fields: { privilege: Type.Optional(PrivilegeField), on: Type.Optional(On) },
        record: GrantRecord,
        example: { on: '/api/v2/catalogs/default/databases/ssb' },
      }),
      create: create({
        summary: `Grants a privilege to a ${singular}.`,
        description: `${caller} ${singular}.`,
        permission: { privilege: 'grant', on: 'target' },
        body: strictObject({ privilege: PrivilegeField, on: On }),
        bodyRequired: true,
        nameOptional: true,
        example: { body: { privilege: 'read', on: '/api/v2/catalogs/default/databases/ssb' } },
      }),
      delete: remove({
        summary: 'Revokes a grant.',
        description: `${caller} ${singular}.`,
        permission: { privilege: 'grant', on: 'target' },
      }),
      check: action('collection', {
        summary: `Checks which privileges a ${singular} has on objects, and by which grants.`,
        description: 'Scopes of tokens, and roles from an identity provider, are not considered.',
        permission: { privilege: 'read', on: 'parent', ...self },
        body: strictObject(
          { checks: Type.Array(Check, { minItems: 1, maxItems: checksMax }) },
          { title: 'CheckGrantsRequest' },
        ),
        bodyRequired: true,
        result: Type.Object({ results: Type.Array(CheckResult) }, { title: 'CheckGrantsResult' }),
        example: {
          body: { checks: [{ privilege: 'read', on: '/api/v2/catalogs/default' }] },
          result: { results: [{ privilege: 'read', on: '/api/v2/catalogs/default', allowed: false, by: null }] },
        },
      }),
    },
  });
};

export const userGrantsApi = grantsOf(usersApi, { orSelf: true });
export const roleGrantsApi = grantsOf(rolesApi, {});
