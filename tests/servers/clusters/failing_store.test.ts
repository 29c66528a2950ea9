// A server whose store fails while it follows what another server changed: whichever statement fails, it sends statements to the backends that are enabled.
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../deadline.ts';
import { clusters, missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { missingPostgresql, newStoreDatabase, urlOfDatabase } from '../../postgresql.ts';
import { start, type TestServer } from '../../server.ts';
import { availabilityIs, backendsOf, clusterSettings, registerAll } from './cluster_server.ts';

/** More than a server needs to follow a change. */
const statementsMax = 5;

describe('a store that fails while a server follows a change', { skip: missingRing || missingPostgresql }, () => {
  let ring: Ring;
  let one: TestServer;
  let two: TestServer;
  /** The next statement of the second server has the number 1. */
  let failing = 0;
  before(async () => {
    const store = urlOfDatabase(await newStoreDatabase());
    ring = await startRing(1);
    one = await start({ ...clusterSettings, store });
    const secretKeyFile = join(one.dataDirectory, 'secret.key');
    const injectStore = () => {
      if (failing > 0 && --failing === 0) throw new Error('the store fails');
    };
    two = await start({ ...clusterSettings, store, logLevel: 'silent', secretKeyFile }, { injectStore });
    await registerAll(one, 'cluster', ring, clusters.shards);
    await availabilityIs(two, 'cluster', ['node1'], 'available');
  });
  after(async () => {
    await two?.close();
    await one?.close();
    await ring?.close();
  });

  for (let statement = 1; statement <= statementsMax; statement++)
    test(`statement ${statement} fails`, async () => {
      const backend = `${backendsOf('cluster')}/node1`;
      (await one.post(`${backend}/disable`)).is(200);
      await availabilityIs(two, 'cluster', ['node1'], 'unavailable');
      failing = statement;
      (await one.post(`${backend}/enable`)).is(200);
      await eventually('the statement has failed', () => failing === 0);
      await availabilityIs(two, 'cluster', ['node1'], 'available');
    });
});
