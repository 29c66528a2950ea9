// A second process with the id of a running server, from a copy of its data directory, does not start: both would hold its leases and
// write its chain of the audit trail. The next process of a server that was killed starts.
import assert from 'node:assert/strict';
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { openStore } from '../../src/store/open_store.ts';
import { StoreInUse } from '../../src/store/store_errors.ts';
import { missingPostgresql } from '../postgresql.ts';
import { kill, newPlaces } from './two_servers.ts';

describe('a copied data directory', { skip: missingPostgresql }, () => {
  test('is refused while the other server is running, and accepted when that was killed', async (t) => {
    const { one, storeUrl: store, remove } = await newPlaces();
    t.after(remove);
    const server = await one.start();
    t.after(() => server.close());
    const dataDirectory = `${one.directory}-copy`;
    cpSync(one.directory, dataDirectory, { recursive: true });
    rmSync(join(dataDirectory, 'server.lock'), { force: true });
    await assert.rejects(openStore({ store, dataDirectory }), (error) => {
      assert(error instanceof StoreInUse, String(error));
      assert.match(error.message, new RegExp(`the same id \\(${one.id()}\\).*is a copy`));
      return true;
    });
    (await server.post('/api/v2/databases', { name: 'd' })).is(201);
    await kill(server);
    const next = await one.start();
    t.after(() => next.close());
    (await next.get('/api/v2/databases/d')).is(200);
  });
});
