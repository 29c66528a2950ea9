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
  /** For PUT: the id of the operation that fails if the object exists. */
  readonly ensures?: string;
  /** PUT of an object: the name is in the path. */
  readonly nameInPath: boolean;
}

type OperationPath = Omit<Operation, 'category' | 'endpoint'>;

/** A path template of a collection. `suffix`: appended to the operation ids if the path is an alias. */
interface CollectionPath {
  readonly base: string;
  readonly suffix?: string;
}

/** All operations of a version, for tests and documents. */
export function operationsOf(categories: readonly Category[], version: ApiVersion): Operation[] {
  return categories.flatMap((category) => {
    const group = groupOf(category, categories);
    return collectionPathsOf(category, categories, version).flatMap(({ base, suffix }) =>
      category.endpoints
        .filter((endpoint) => isInVersion(endpoint, version))
        .flatMap((endpoint) =>
          operationPathsOf(category, endpoint, base, group).map((operationPath) => ({
            ...operationPath,
            ...(suffix === undefined
              ? {}
              : {
                  operationId: operationPath.operationId + suffix,
                  aliasOf: operationPath.aliasOf ?? operationPath.operationId,
                }),
            category,
            endpoint,
          })),
        ),
    );
  });
}

/** The singular of a category: `table`; with its parent if several categories have the same name: `user_grant`. */
export function nounOf(category: Category, categories: readonly Category[]): string {
  return prefixOf(category, categories) + category.singular;
}

const groupOf = (category: Category, categories: readonly Category[]): string =>
  prefixOf(category, categories) + category.name;

function prefixOf({ name, parent }: Category, categories: readonly Category[]): string {
  if (categories.filter((candidate) => candidate.name === name).length === 1) return '';
  return `${categories.find((candidate) => candidate.name === parent)?.singular}_`;
}

function collectionPathsOf(category: Category, categories: readonly Category[], version: string): CollectionPath[] {
  const byName = new Map(categories.map((candidate) => [candidate.name, candidate]));
  const ancestors: Category[] = [];
  for (let parent = byName.get(category.parent ?? ''); parent; parent = byName.get(parent.parent ?? ''))
    ancestors.unshift(parent);
  const template = (parents: readonly Category[]) =>
    `/api/${version}/${[...parents.map(({ name, parameter }) => `${name}/{${parameter}}`), category.name].join('/')}`;
  const paths: CollectionPath[] = [{ base: template(ancestors) }];
  const from = [...ancestors, category].findIndex((ancestor) => ancestor.parentDefault !== undefined);
  const implied = ancestors[from - 1];
  if (implied) paths.push({ base: template(ancestors.slice(from)), suffix: `_in_default_${implied.singular}` });
  return paths;
}

function operationPathsOf(category: Category, endpoint: Endpoint, base: string, group: string): OperationPath[] {
  const object = `${base}/{${category.parameter}}`;
  const operationPath = (
    method: Operation['method'],
    path: string,
    action: string,
    more: Partial<Pick<OperationPath, 'aliasOf' | 'ensures' | 'nameInPath'>> = {},
  ): OperationPath => ({ method, path, operationId: `${group}.${action}`, nameInPath: false, ...more });
  switch (endpoint.verb) {
    case 'list':
      return [operationPath('get', base, 'list')];
    case 'get':
      return [operationPath('get', object, 'get')];
    case 'update':
      return [operationPath('patch', object, 'update')];
    case 'delete':
      return [operationPath('delete', object, 'delete')];
    case 'action': {
      const action = endpoint.action as string;
      return [
        operationPath('post', `${endpoint.on === 'object' ? object : base}/${action}`, endpoint.auditName ?? action),
      ];
    }
    case 'create': {
      const ensures = `${group}.create`;
      if (endpoint.named === false) return [operationPath('post', base, 'create')];
      return [
        operationPath('post', base, 'create'),
        operationPath('put', base, 'ensure', { ensures }),
        operationPath('post', `${base}/create`, 'create_by_action', { aliasOf: `${group}.create` }),
        operationPath('put', `${base}/create`, 'ensure_by_action', { aliasOf: `${group}.ensure`, ensures }),
        operationPath('put', object, 'ensure_by_name', { nameInPath: true, ensures }),
      ];
    }
  }
}
