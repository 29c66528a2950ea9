// The declaration of `dependents`, shared by tables and views.
import { Type } from '../standard/type.ts';
import { action } from './declare.ts';
import { noFields } from './fields.ts';

export const dependentsApi = (title: string) => ({
  dependents: action('object', {
    summary: `Lists the views that depend on a ${title}. A ${title} with dependent views cannot be renamed or dropped.`,
    permission: { privilege: 'read', on: 'object' },
    body: noFields,
    result: Type.Object({
      views: Type.Array(Type.String(), {
        description: 'URIs of the dependent views that the caller may read; at most 100.',
      }),
      otherViews: Type.Integer({ description: 'The number of further dependent views.' }),
    }),
    example: {
      body: {},
      result: { views: ['/api/v2/catalogs/default/databases/shop/views/big_orders'], otherViews: 0 },
    },
  }),
});
