// Every path responds to unsupported methods with 405 and the supported ones, and to OPTIONS and HEAD without a body (rest-standard
// B1).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { TestServer } from '../server.ts';
import { operations, pathOf } from './operation_call.ts';
import { worldOf } from './worlds.ts';

let server: TestServer;
before(async () => {
  server = await worldOf(import.meta.url).start();
});
after(() => server.close());

/** Methods by template; an action of a collection shares its path with an object of that name. */
function methodsByPath(): Map<string, Set<string>> {
  const methodsOfPath = new Map<string, Set<string>>();
  for (const { path, method } of operations) {
    const methods = methodsOfPath.get(path) ?? new Set();
    methodsOfPath.set(path, methods.add(method.toUpperCase()));
  }
  for (const { path, category, endpoint } of operations) {
    const isAction = path.endsWith('/create') || (endpoint.verb === 'action' && endpoint.on === 'collection');
    const object = path.replace(/\/\w+$/, `/{${category.parameter}}`);
    if (!isAction) continue;
    for (const method of methodsOfPath.get(object) ?? []) if (method !== 'PUT') methodsOfPath.get(path)?.add(method);
  }
  return methodsOfPath;
}

const paths = [...methodsByPath()];
const allowOf = (methods: ReadonlySet<string>) =>
  [...methods, ...(methods.has('GET') ? ['HEAD'] : []), 'OPTIONS'].sort().join(', ');

test('a wrong method: 405, with exactly the supported methods', async () => {
  for (const [template, methods] of paths)
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'PROPFIND', 'LINK']) {
      if (methods.has(method)) continue;
      const reply = await server.request(method, pathOf(template));
      reply.is(405, 'METHOD_NOT_ALLOWED', { allow: allowOf(methods).split(', ') });
      assert.equal(reply.headers.allow, allowOf(methods), `${method} ${template}`);
    }
});

test('OPTIONS: 200, the methods, no body', async () => {
  for (const [template, methods] of paths) {
    const { status, headers, text } = await server.send('OPTIONS', pathOf(template));
    assert.deepEqual([status, headers.allow, text], [200, allowOf(methods), ''], template);
    assert.equal(headers['content-type'], undefined);
  }
});

test('HEAD: the headers of GET, without its body', async () => {
  for (const [template, methods] of paths) {
    if (!methods.has('GET')) continue;
    const path = pathOf(template);
    const [head, get] = [await server.send('HEAD', path), await server.send('GET', path)];
    assert.deepEqual([head.status, head.text], [get.status, ''], template);
    assert.equal(head.headers['content-type'], 'application/json');
    const lengths = [head.headers['content-length'], get.headers['content-length']];
    assert.ok(Math.abs(Number(lengths[0]) - Number(lengths[1])) < 16, `${template}: ${lengths}`);
  }
});

test('HEAD needs credentials as GET does', async () => {
  const { status } = await server.send('HEAD', '/api/v2/catalogs', { headers: { authorization: undefined } });
  assert.equal(status, 401);
});
