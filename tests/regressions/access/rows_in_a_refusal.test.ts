// A principal that may change a table, but not read it, was shown its rows and keys that violated a constraint.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newPerson } from '../../access/people.ts';
import { start } from '../../server.ts';

test('rows that prevent a change of a table are shown only to principals that may read it', async (t) => {
  const server = await start();
  t.after(() => server.close());
  await server.client.databases.create({ name: 'd' });
  const pay = '/api/v2/databases/d/tables/pay';
  const columns = ['who', 'n'].map((name) => ({ name, type: 'STRING' }));
  await server.client.databases('d').tables.create({ name: 'pay', columns }).done();
  (
    await server.post(`${pay}/rows`, {
      rows: [
        ['Ann', null],
        ['Ann', null],
      ],
    })
  ).is(201);
  const changer = await newPerson(server, 'changer', [['alter', '/databases/d']]);
  const reader = await newPerson(server, 'reader', [
    ['alter', '/databases/d'],
    ['read', '/databases/d'],
  ]);
  const changes = [
    ['POST', `${pay}/columns`, { name: 'z', type: 'INT', nullable: false }],
    ['PATCH', `${pay}/columns/n`, { nullable: false }],
    ['PATCH', pay, { unique_key_constraints: ['who'] }],
  ] as const;
  for (const [method, path, body] of changes) {
    const refusal = (await reader.request(method, path, body)).is(400, 'CONSTRAINT_VIOLATED');
    assert.match(refusal.text, /Ann/);
    const hidden = (await changer.request(method, path, body)).is(400, 'CONSTRAINT_VIOLATED');
    assert.doesNotMatch(hidden.text, /Ann/);
    assert.equal(hidden.at('count'), refusal.at('count'));
  }
});
