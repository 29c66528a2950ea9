// The declaration of `browse`, of catalogs and databases: the way to what a caller may read, for callers who may not read what contains it.
import { Type } from '../../standard/type.ts';
import { searchBy } from '../search.ts';

const titles = { catalogs: 'BrowsedCatalog', databases: 'BrowsedDatabase' } as const;

const browsed = (title: string) =>
  Type.Object(
    {
      name: Type.String(),
      uri: Type.String(),
      readable: Type.Boolean({ description: 'Whether the caller may read the object itself, and so its record.' }),
    },
    { title },
  );

export const browse = (category: 'catalogs' | 'databases') =>
  searchBy({
    category,
    summary: `Lists the names of the ${category} that the caller may read, or in which the caller may read something.`,
    description:
      'For the path to a table on which the caller has a grant. Nothing but names is shown of what the caller may not read.',
    permission: { privilege: 'read', on: 'parent', orWithin: true },
    fields: {},
    record: browsed(titles[category]),
    example: {},
    title: 'BrowseRequest',
  });
