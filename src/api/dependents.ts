// The declaration of `dependents`, shared by tables and views.
import { Type } from '../standard/type.ts';
import { action } from './declare.ts';
import { noFields } from './fields.ts';

export const dependentsApi = (title: string) => ({
  dependents: action('object', {
    summary: `Shows which views are made of a ${title}. While there are any, it cannot be renamed or dropped.`,
    permission: { privilege: 'read', on: 'object' },
    codes: ['OBJECT_NOT_FOUND'],
    body: noFields,
    result: Type.Object({
      views: Type.Array(Type.String(), {
        description: 'URIs of the views whose queries name it, as far as the caller may read them; at most 100.',
      }),
      otherViews: Type.Integer({ description: 'How many more there are.' }),
    }),
    example: {
      body: {},
      result: { views: ['/api/v2/catalogs/default/databases/shop/views/big_orders'], otherViews: 0 },
    },
  }),
});
