// A user or role could be named `system`, or like a name that reads as `root`; and a principal that may alter a user could disable it.
import { after, before, test } from 'node:test';
import { newPerson } from '../../access/people.ts';
import { start, type TestServer } from '../../server.ts';

let server: TestServer;
before(async () => {
  server = await start();
});
after(() => server.close());

const refused = [
  'system',
  'System',
  'r\u043eot',
  'ROOT',
  'ｒｏｏｔ',
  'r00t',
  '\u0455ystem',
  'root\u200b',
  'a\u202eb',
  'so\u00adft',
  'ro\u0301ot',
];
const fine = ['roots', 'systems', 'Ärzte', '日本', 'root_2', 'ann lee'];

test('names of principals that resemble root or system are refused', async () => {
  for (const category of ['users', 'roles']) {
    (await server.post(`/api/v2/${category}`, { name: 'plain' })).is(201);
    for (const name of refused) {
      if (category === 'users' && name === 'ROOT') continue; // it exists in another case
      (await server.post(`/api/v2/${category}`, { name })).is(400, 'INVALID_NAME');
      (await server.post(`/api/v2/${category}/plain/rename`, { newName: name })).is(400, 'INVALID_NAME');
    }
    for (const name of fine) (await server.post(`/api/v2/${category}`, { name })).is(201);
  }
  (await server.put('/api/v2/users/root', {})).is(201, '0', { created: false });
});

test('disabling a user requires operate', async () => {
  await server.client.users.create({ name: 'target' });
  const alters = await newPerson(server, 'alters', [['alter', '/users/target']]);
  const operates = await newPerson(server, 'operates', [
    ['alter', '/users/target'],
    ['operate', '/users/target'],
  ]);
  const patch = (disabled: boolean) => ['PATCH', '/api/v2/users/target', { disabled }] as const;
  (await alters.request('PATCH', '/api/v2/users/target', { comment: 'x', disabled: false })).is(200);
  (await alters.request(...patch(true))).is(403, 'FORBIDDEN');
  (await operates.request(...patch(true))).is(200);
  (await alters.request(...patch(false))).is(403, 'FORBIDDEN');
  (await operates.request(...patch(false))).is(200);
});
