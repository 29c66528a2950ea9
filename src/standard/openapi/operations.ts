// The operations of the API: every way to reach an endpoint, with its method, its path template and its id. Paths without the catalog
// and paths that end in `create` are aliases of another operation.
import type { ApiVersion, Category, Endpoint } from '../endpoint.ts';
import { isInVersion } from '../paths.ts';

/** One way to reach an endpoint. */
export interface Operation {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** A path template: `/api/v2/catalogs/{catalog}`. */
  readonly path: string;
  /** The category and the action: `tables.rename`. */
  readonly operationId: string;
  /** The id of the operation that does the same. */
  readonly aliasOf?: string;
  readonly category: Category;
  readonly endpoint: Endpoint;
  /** For PUT: the id of the operation that always creates. */
  readonly ensures?: string;
  /** PUT of an object: the name is in the path. */
  readonly nameInPath: boolean;
}

type Form = Omit<Operation, 'category' | 'endpoint'>;

/** The path templates of a collection; `suffix`: of the ids of aliases. */
interface Shape {
  readonly base: string;
  readonly suffix?: string;
}

/** All operations of a version, for tests and documents. */
export function operationsOf(categories: readonly Category[], version: ApiVersion): Operation[] {
  return categories.flatMap((category) => {
    const group = groupOf(category, categories);
    return shapesOf(category, categories, version).flatMap(({ base, suffix }) =>
      category.endpoints
        .filter((endpoint) => isInVersion(endpoint, version))
        .flatMap((endpoint) =>
          formsOf(category, endpoint, base, group).map((form) => ({
            ...form,
            ...(suffix === undefined
              ? {}
              : { operationId: form.operationId + suffix, aliasOf: form.aliasOf ?? form.operationId }),
            category,
            endpoint,
          })),
        ),
    );
  });
}

/** The category without a number: `table`; if other parents have a category of the same name, with the parent: `user_grant`. */
export function nounOf(category: Category, categories: readonly Category[]): string {
  return prefixOf(category, categories) + category.singular;
}

const groupOf = (category: Category, categories: readonly Category[]): string =>
  prefixOf(category, categories) + category.name;

function prefixOf({ name, parent }: Category, categories: readonly Category[]): string {
  if (categories.filter((candidate) => candidate.name === name).length === 1) return '';
  return `${categories.find((candidate) => candidate.name === parent)?.singular}_`;
}

function shapesOf(category: Category, categories: readonly Category[], version: string): Shape[] {
  const byName = new Map(categories.map((candidate) => [candidate.name, candidate]));
  const ancestors: Category[] = [];
  for (let parent = byName.get(category.parent ?? ''); parent; parent = byName.get(parent.parent ?? ''))
    ancestors.unshift(parent);
  const template = (parents: readonly Category[]) =>
    `/api/${version}/${[...parents.map(({ name, parameter }) => `${name}/{${parameter}}`), category.name].join('/')}`;
  const shapes: Shape[] = [{ base: template(ancestors) }];
  const from = [...ancestors, category].findIndex((ancestor) => ancestor.parentDefault !== undefined);
  const implied = ancestors[from - 1];
  if (implied) shapes.push({ base: template(ancestors.slice(from)), suffix: `_in_default_${implied.singular}` });
  return shapes;
}

function formsOf(category: Category, endpoint: Endpoint, base: string, group: string): Form[] {
  const object = `${base}/{${category.parameter}}`;
  const form = (
    method: Operation['method'],
    path: string,
    action: string,
    more: Partial<Pick<Form, 'aliasOf' | 'ensures' | 'nameInPath'>> = {},
  ): Form => ({ method, path, operationId: `${group}.${action}`, nameInPath: false, ...more });
  switch (endpoint.verb) {
    case 'list':
      return [form('get', base, 'list')];
    case 'get':
      return [form('get', object, 'get')];
    case 'update':
      return [form('patch', object, 'update')];
    case 'delete':
      return [form('delete', object, 'delete')];
    case 'action': {
      const action = endpoint.action as string;
      return [form('post', `${endpoint.on === 'object' ? object : base}/${action}`, endpoint.auditName ?? action)];
    }
    case 'create': {
      const ensures = `${group}.create`;
      if (endpoint.named === false) return [form('post', base, 'create')];
      return [
        form('post', base, 'create'),
        form('put', base, 'ensure', { ensures }),
        form('post', `${base}/create`, 'create_by_action', { aliasOf: `${group}.create` }),
        form('put', `${base}/create`, 'ensure_by_action', { aliasOf: `${group}.ensure`, ensures }),
        form('put', object, 'ensure_by_name', { nameInPath: true, ensures }),
      ];
    }
  }
}
