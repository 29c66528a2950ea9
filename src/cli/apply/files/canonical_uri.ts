// URIs of objects in the form in which the server returns them.
import { categoriesApi } from '../../../api/categories.ts';
import type { Kind } from './kinds.ts';

const base = '/api/v2';

/** With the catalog that the path leaves out, and names encoded as the server does. What is not a URI of this API stays as it is. */
export function canonicalUri(uri: string): string {
  const [, prefix, rest] = /^(\/api\/v\d+)\/(.+)$/.exec(uri) ?? [];
  if (prefix === undefined || rest === undefined) return uri;
  try {
    const parts = rest.split('/').map((part) => encodeURIComponent(decodeURIComponent(part)));
    const first = categoriesApi.find(({ name }) => name === parts[0]);
    const { parent, parentDefault } = { parent: undefined, parentDefault: undefined, ...first };
    const above = parent === undefined || parentDefault === undefined ? [] : [parentOf(parent), parentDefault];
    return [prefix, ...above, ...parts].join('/');
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
    return uri;
  }
}

const parentOf = ({ name }: { readonly name: string }): string => name;

/** The URI of the collection that has the objects of a kind. `above`: the names of the objects above it, root first. */
export function collectionUri({ ancestors, category }: Kind, above: readonly string[]): string {
  const parents = ancestors.map(({ name }, i) => `/${name}/${encodeURIComponent(above[i] ?? '')}`);
  return `${base}${parents.join('')}/${category.name}`;
}

export const objectUri = (kind: Kind, path: readonly string[]): string =>
  `${collectionUri(kind, path)}/${encodeURIComponent(path[kind.ancestors.length] ?? '')}`;
