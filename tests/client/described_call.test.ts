// Calls of the client that are described instead of sent: the request, and code that makes the same request.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { type Client, describeCall } from '../../src/client/index.ts';

const calls: readonly ((client: Client) => unknown)[] = [
  (client) => client.databases('shop').tables('a/b').delete({ purge: true }),
  (client) => client.catalogs('default').databases('shop').tables('orders').columns('id').update({ comment: null }),
  (client) => client.roles.create({ name: 'readers', members: ['ann', `O'Brien "x"`] }, { ifExists: 'return' }),
  (client) => client.users('ann').grants.create({ privilege: 'read', on: '/api/v2/catalogs/default' }),
  (client) =>
    client.databases('shop').tables.create({
      name: 'orders',
      columns: [{ name: 'id', type: 'BIGINT', comment: '</script>' }],
      properties: { 'a-b': 'a long value that does not fit into one line with the others' },
    }),
];

it('describes the request of a call, and code that makes it', () => {
  const described = calls.map(describeCall);
  assert.deepEqual(
    described.map(({ method, path }) => `${method} ${path}`),
    [
      'DELETE /api/v2/databases/shop/tables/a%2Fb?purge=true',
      'PATCH /api/v2/catalogs/default/databases/shop/tables/orders/columns/id',
      'PUT /api/v2/roles',
      'POST /api/v2/users/ann/grants',
      'POST /api/v2/databases/shop/tables',
    ],
  );
  assert.equal(described[0]?.code, 'client.databases("shop").tables("a/b").delete({ purge: true })');
  assert.equal(described[3]?.body && Object.keys(described[3].body).join(), 'privilege,on');
  for (const describedCall of described) {
    const call = new Function('client', `return ${describedCall.code}`) as (client: Client) => unknown;
    assert.deepEqual(JSON.parse(JSON.stringify(describeCall(call))), JSON.parse(JSON.stringify(describedCall)));
  }
});

it('refuses a description of no call', () => {
  assert.throws(() => describeCall((client) => client.users('ann')), TypeError);
});
