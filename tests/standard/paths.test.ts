// The grammar of paths on the real categories (rest-standard A1, B1): what each method and path names, what is no REST API
// at all, and what is one but not with that method.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { categoriesWith } from '../../src/resources/index.ts';
import { actionOf } from '../../src/standard/endpoint.ts';
import { Failure } from '../../src/standard/failure.ts';
import { Routes, uriOf } from '../../src/standard/paths.ts';

const routes = new Routes(categoriesWith({ rowsBodyBytesMax: 1024 }));

function resolvePath(method: string, path: string) {
  const { category, endpoint, path: parameters, nameInPath, ifExists } = routes.resolve(method, path);
  return {
    endpoint: `${category.name}.${actionOf(endpoint)}`,
    parameters,
    nameInPath,
    ifExists,
  };
}

function failure(method: string, path: string): Failure {
  try {
    const resolved = resolvePath(method, path);
    return assert.fail(`${method} ${path} is ${resolved.endpoint}`);
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
}

const inDefault = { catalog: 'default' };

const resolvedPaths: readonly [method: string, path: string, endpoint: string, parameters: object][] = [
  ['GET', '/api/v2/catalogs', 'catalogs.list', {}],
  ['HEAD', '/api/v2/catalogs', 'catalogs.list', {}],
  ['GET', '/api/v2/catalogs/a', 'catalogs.get', { catalog: 'a' }],
  ['PATCH', '/api/v2/catalogs/a', 'catalogs.update', { catalog: 'a' }],
  ['DELETE', '/api/v2/catalogs/a', 'catalogs.delete', { catalog: 'a' }],
  ['POST', '/api/v2/catalogs/a/rename', 'catalogs.rename', { catalog: 'a' }],
  ['POST', '/api/v2/catalogs/a/query', 'catalogs.query', { catalog: 'a' }],
  ['GET', '/api/v2/catalogs/a/databases/b', 'databases.get', { catalog: 'a', database: 'b' }],
  ['GET', '/api/v2/databases', 'databases.list', inDefault],
  ['POST', '/api/v2/databases/search', 'databases.search', inDefault],
  ['GET', '/api/v2/databases/b', 'databases.get', { ...inDefault, database: 'b' }],
  ['GET', '/api/v2/databases/b/tables/t', 'tables.get', { ...inDefault, database: 'b', table: 't' }],
  [
    'POST',
    '/api/v2/databases/b/tables/t/columns/c/rename',
    'columns.rename',
    { ...inDefault, database: 'b', table: 't', column: 'c' },
  ],
  [
    'GET',
    '/api/v2/databases/b/tables/t/tablets/0/replicas/r',
    'replicas.get',
    { ...inDefault, database: 'b', table: 't', tabletId: '0', replicaId: 'r' },
  ],
  ['GET', '/api/v2/warehouses/w/backends/n', 'backends.get', { warehouseName: 'w', backendId: 'n' }],
  ['POST', '/api/v2/tasks/1/cancel', 'tasks.cancel', { taskId: '1' }],
  ['GET', '/api/v2/tasks/1/pages/0', 'pages.get', { taskId: '1', page: '0' }],
  // names that look like something else
  ['GET', '/api/v2/databases/b/tables/create', 'tables.get', { ...inDefault, database: 'b', table: 'create' }],
  ['PATCH', '/api/v2/databases/b/tables/search', 'tables.update', { ...inDefault, database: 'b', table: 'search' }],
  ['DELETE', '/api/v2/databases/b/tables/create', 'tables.delete', { ...inDefault, database: 'b', table: 'create' }],
  ['POST', '/api/v2/databases/b/tables/search', 'tables.search', { ...inDefault, database: 'b' }],
  ['POST', '/api/v2/databases/b/tables/create', 'tables.create', { ...inDefault, database: 'b' }],
  [
    'POST',
    '/api/v2/databases/b/tables/create/rename',
    'tables.rename',
    { ...inDefault, database: 'b', table: 'create' },
  ],
  ['GET', '/api/v2/databases/tables', 'databases.get', { ...inDefault, database: 'tables' }],
  ['GET', '/api/v2/databases/tables/tables', 'tables.list', { ...inDefault, database: 'tables' }],
  [
    'GET',
    '/api/v2/databases/tables/tables/tables',
    'tables.get',
    { ...inDefault, database: 'tables', table: 'tables' },
  ],
  ['POST', '/api/v2/databases/rename/rename', 'databases.rename', { ...inDefault, database: 'rename' }],
  [
    'GET',
    '/api/v2/catalogs/databases/databases/databases',
    'databases.get',
    { catalog: 'databases', database: 'databases' },
  ],
  // percent-encoding
  ['GET', '/api/v2/catalogs/a%2Fb', 'catalogs.get', { catalog: 'a/b' }],
  ['GET', '/api/v2/catalogs/a%252Fb', 'catalogs.get', { catalog: 'a%2Fb' }],
  ['GET', '/api/v2/catalogs/%F0%9F%97%84', 'catalogs.get', { catalog: '🗄' }],
  ['GET', '/api/v2/catalogs/%20', 'catalogs.get', { catalog: ' ' }],
  ['GET', '/api/v2/catalogs/a+b', 'catalogs.get', { catalog: 'a+b' }],
  ['GET', '/api/v2/%63atalogs/a', 'catalogs.get', { catalog: 'a' }],
  ['GET', '/api/v2/catalogs/..', 'catalogs.get', { catalog: '..' }],
  ['GET', '/api/v2/catalogs/%2e%2e', 'catalogs.get', { catalog: '..' }],
  ['GET', '/api/v2/catalogs/__proto__', 'catalogs.get', { catalog: '__proto__' }],
];

test('the endpoint of each method and path', () => {
  for (const [method, path, endpoint, parameters] of resolvedPaths) {
    const resolved = resolvePath(method, path);
    assert.deepEqual([resolved.endpoint, resolved.parameters], [endpoint, parameters], `${method} ${path}`);
  }
});

test('the forms of create: POST fails for an existing object, PUT returns it, the name is in the body or in the path', () => {
  const base = '/api/v2/databases/b/tables';
  const forms: readonly [string, string, 'fail' | 'return', string | undefined][] = [
    ['POST', base, 'fail', undefined],
    ['PUT', base, 'return', undefined],
    ['POST', `${base}/create`, 'fail', undefined],
    ['PUT', `${base}/create`, 'return', undefined],
    ['PUT', `${base}/orders`, 'return', 'orders'],
    ['PUT', `${base}/a%2Fb`, 'return', 'a/b'],
  ];
  for (const [method, path, ifExists, nameInPath] of forms) {
    const resolved = resolvePath(method, path);
    const expected = { endpoint: 'tables.create', parameters: { ...inDefault, database: 'b' }, nameInPath, ifExists };
    assert.deepEqual(resolved, expected, `${method} ${path}`);
  }
});

const unknown = [
  '/api',
  '/api/',
  '/api/v2',
  '/api/v2/',
  '/api/v2//catalogs',
  '/api/v2/catalogs/',
  '/api/v2/catalogs//databases',
  '/api/v2/catalogs/a/',
  '/api/v1/catalogs',
  '/api/v3/catalogs',
  '/api/v02/catalogs',
  '/api/V2/catalogs',
  '/api/v/catalogs',
  '/api/2/catalogs',
  '/api/v2/Catalogs',
  '/api/v2/catalog',
  '/api/v2/tables',
  '/api/v2/constructor',
  '/api/v2/__proto__/x',
  '/api/v2/catalogs/a/tables',
  '/api/v2/catalogs/a/b/c',
  '/api/v2/catalogs/a/nothing',
  '/api/v2/catalogs/../warehouses',
  '/api/v2/catalogs/a/databases/b/catalogs',
  '/api/v2/catalogs/%',
  '/api/v2/catalogs/%zz',
  '/api/v2/catalogs/%C3',
  '/api/v2/catalogs/%ED%A0%80',
  '/api/v2/catalogs/%FF',
  '/api/v2/catalogs/\u00c3\u00a9',
  '/api/v2/catalogs/\u00ff',
  '/v2/catalogs',
  '//api/v2/catalogs',
];

test('paths that are not a registered REST API, whatever the method', () => {
  for (const path of unknown)
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'BREW']) {
      assert.equal(failure(method, path).code, 'API_NOT_FOUND', `${method} ${path}`);
    }
});

const wrongMethod: readonly [method: string, path: string, allow: string][] = [
  ['DELETE', '/api/v2/catalogs', 'GET HEAD OPTIONS POST PUT'],
  ['PATCH', '/api/v2/catalogs', 'GET HEAD OPTIONS POST PUT'],
  ['OPTIONS', '/api/v2/catalogs', 'GET HEAD OPTIONS POST PUT'],
  ['POST', '/api/v2/catalogs/a', 'DELETE GET HEAD OPTIONS PATCH PUT'],
  ['BREW', '/api/v2/catalogs/a', 'DELETE GET HEAD OPTIONS PATCH PUT'],
  ['__proto__', '/api/v2/catalogs/a', 'DELETE GET HEAD OPTIONS PATCH PUT'],
  ['GET', '/api/v2/catalogs/a/rename', 'OPTIONS POST'],
  ['PUT', '/api/v2/catalogs/a/rename', 'OPTIONS POST'],
  ['PUT', '/api/v2/databases/b/tables/search', 'DELETE GET HEAD OPTIONS PATCH POST'],
  ['POST', '/api/v2/databases/b/tables/rename', 'DELETE GET HEAD OPTIONS PATCH PUT'],
  ['OPTIONS', '/api/v2/databases/b/tables/create', 'DELETE GET HEAD OPTIONS PATCH POST PUT'],
  ['POST', '/api/v2/tasks', 'GET HEAD OPTIONS'],
  ['PUT', '/api/v2/tasks/1', 'DELETE GET HEAD OPTIONS'],
  ['PATCH', '/api/v2/databases/b/tables/t/tablets/0', 'GET HEAD OPTIONS'],
  ['PUT', '/api/v2/databases/b/tables/t/rows', 'GET HEAD OPTIONS POST'],
];

test('a known path with another method: the supported methods are listed', () => {
  for (const [method, path, allow] of wrongMethod) {
    const { code, result, message } = failure(method, path);
    assert.equal(code, 'METHOD_NOT_ALLOWED', `${method} ${path}: ${message}`);
    assert.deepEqual((result.allow as string[]).join(' '), allow, `${method} ${path}`);
  }
});

test('rows have no names, so there are no paths of single rows', () => {
  assert.equal(failure('GET', '/api/v2/databases/b/tables/t/rows/1').code, 'API_NOT_FOUND');
  assert.equal(failure('POST', '/api/v2/databases/b/tables/t/rows/create').code, 'API_NOT_FOUND');
});

test('the URI of any name resolves to that name', () => {
  const name = fc.string({ unit: 'binary', minLength: 1, maxLength: 128 }).filter((text) => text.isWellFormed());
  fc.assert(
    fc.property(name, name, name, (catalog, database, table) => {
      const segments = [
        { category: 'catalogs', name: catalog },
        { category: 'databases', name: database },
        { category: 'tables', name: table },
      ];
      const route = routes.resolve('GET', uriOf('v2', segments));
      assert.deepEqual(route.path, { catalog, database, table });
      assert.deepEqual(route.segments, segments);
    }),
  );
});

test('any path, however unusual, results in a route or one of the two codes', () => {
  const piece = fc.oneof(
    fc.constantFrom(
      'api',
      'v2',
      'catalogs',
      'databases',
      'tables',
      'create',
      'search',
      'rename',
      '',
      '.',
      '..',
      '%',
      '%2F',
    ),
    fc.string({ unit: 'binary-ascii', maxLength: 8 }),
  );
  fc.assert(
    fc.property(
      fc.array(piece, { maxLength: 9 }),
      fc.constantFrom('GET', 'PUT', 'POST', 'PATCH', 'DELETE', 'X'),
      (pieces, method) => {
        try {
          routes.resolve(method, `/${pieces.join('/')}`);
        } catch (error) {
          assert.ok(error instanceof Failure);
          assert.ok(['API_NOT_FOUND', 'METHOD_NOT_ALLOWED'].includes(error.code));
        }
      },
    ),
    { numRuns: 2000 },
  );
});
