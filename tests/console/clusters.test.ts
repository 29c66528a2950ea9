// Several machines in the console: a catalog is moved to another warehouse after a dry run; a cluster is registered, one of its servers is lost
// and returns, and one is taken out of service; the servers of one store are listed.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import type { Browser } from 'playwright-core';
import { eventually } from '../deadline.ts';
import { clusters, missingRing, type Ring, startRing } from '../engines/clickhouse/ring/ring.ts';
import { missingPostgresql } from '../postgresql.ts';
import { start, type TestServer } from '../server.ts';
import { kill, newPlaces, seeEachOther } from '../servers/two_servers.ts';
import { ConsolePage, launchBrowser, noBrowser } from './browser.ts';

describe('clusters in the console', { skip: noBrowser || missingRing }, () => {
  let server: TestServer;
  let browser: Browser;
  let ring: Ring;

  before(async () => {
    [server, browser, ring] = await Promise.all([start({ clusterHosts: '127.0.0.1' }), launchBrowser(), startRing()]);
    const shop = server.client.catalogs('default').databases;
    await shop.create({ name: 'shop' });
    const columns = [{ name: 'id', type: 'BIGINT', nullable: false }];
    await shop('shop')
      .tables.create({ name: 'orders', columns, primaryKey: ['id'] })
      .done();
    await server.query('shop', 'INSERT INTO orders SELECT range FROM range(1000)');
    await shop('shop')
      .tables.create({ name: 'days', columns: [{ name: 'day', type: 'DATE' }] })
      .done();
    await server.query('shop', "INSERT INTO days VALUES (DATE '9999-12-31'), (DATE '2026-01-31')");
  });
  after(async () => {
    await browser?.close();
    await server?.close();
    await ring?.close();
  });

  it('registers a cluster and its servers, and shows a lost and a disabled one', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'warehouses' });
    const { page } = consolePage;
    await page.getByRole('button', { name: 'New warehouse' }).click();
    const form = page.getByRole('dialog', { name: 'New warehouse' });
    await form.getByLabel('Name').fill('lake');
    await form.getByLabel('Runs').click();
    await page.getByRole('option', { name: /On a cluster/ }).click();
    await form.getByLabel('Cluster').fill(clusters.copies);
    await consolePage.checkAccessibility();
    await consolePage.photograph('cluster_form');
    await form.getByRole('button', { name: 'Create' }).click();
    await page.getByText('No server of the cluster is registered').waitFor();
    for (const [index, { url }] of ring.nodes.entries()) {
      await page.getByRole('button', { name: 'New backend' }).click();
      const backend = page.getByRole('dialog', { name: 'New backend' });
      await backend.getByLabel('Name').fill(`node-${index + 1}`);
      await backend.getByLabel('URL').fill(url);
      await backend.getByLabel('Zone').fill(`rack ${index + 1}`);
      await backend.getByRole('button', { name: 'Create' }).click();
      await page.getByRole('heading', { name: `node-${index + 1}` }).waitFor();
    }
    await page.getByText('Shard 1: 3 of 3 replicas available').waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('cluster_backends');
    await ring.nodes[2]?.kill();
    await page.getByText('Shard 1: 2 of 3 replicas available').waitFor();
    await consolePage.photograph('cluster_lost_backend');
    await ring.nodes[2]?.start();
    await page.getByText('Shard 1: 3 of 3 replicas available').waitFor();
    const third = page.getByRole('article').filter({ has: page.getByRole('heading', { name: 'node-3' }) });
    await third.getByRole('button', { name: 'Change node-3' }).click();
    const changing = page.getByRole('dialog', { name: 'Change node-3' });
    await changing.getByLabel('Zone').fill('rack 4');
    await changing.getByRole('button', { name: 'Save' }).click();
    await third.getByText('rack 4').waitFor();
    await third.getByRole('button', { name: 'Disable' }).click();
    const disabling = page.getByRole('dialog', { name: 'Disable node-3?' });
    await disabling.getByText('writes and changes are refused').waitFor();
    await consolePage.photograph('cluster_disable');
    await disabling.getByRole('button', { name: 'Disable backend' }).click();
    await third.getByText('Disabled', { exact: true }).waitFor();
    await third.getByRole('button', { name: 'Enable' }).click();
    await third.getByText('Available', { exact: true }).waitFor();
    await consolePage.close();
  });

  it('moves a catalog there after a dry run', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'catalog/default' });
    const { page } = consolePage;
    await page.getByRole('button', { name: 'More actions' }).click();
    await page.getByRole('menuitem', { name: 'Move…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Move catalog default' });
    await dialog.getByLabel('To the warehouse').click();
    await page.getByRole('option', { name: /^lake/ }).click();
    await dialog.getByRole('button', { name: 'Check' }).click();
    await dialog.getByText('1,002').waitFor();
    await dialog.getByText(/the column "day" has 1 value out of the range/).waitFor();
    await dialog.getByText('2 things do not carry over; all of them prevent the move.').waitFor();
    assert.equal(await dialog.getByRole('button', { name: 'Move', exact: true }).isEnabled(), false);
    await consolePage.checkAccessibility();
    await consolePage.photograph('move_blocked');
    const consent = dialog.getByLabel('Give up the keys that the warehouse does not enforce');
    await consent.check();
    assert.equal(await dialog.getByRole('button', { name: 'Move', exact: true }).isEnabled(), false);
    await consent.uncheck();
    (await server.query('shop', "DELETE FROM days WHERE day > '2299-12-31'")).is(200);
    await dialog.getByRole('button', { name: 'Check' }).click();
    await dialog.getByText('1,001').waitFor();
    assert.equal(await dialog.getByRole('button', { name: 'Move', exact: true }).isEnabled(), false);
    await consolePage.checkAccessibility();
    await consolePage.photograph('move_dry_run');
    await consent.check();
    await dialog.getByRole('button', { name: 'Move', exact: true }).click();
    await page.getByRole('row', { name: /Move catalog default to lake/ }).waitFor();
    await page
      .getByRole('row', { name: /Move catalog \(dry run\) default to lake/ })
      .first()
      .waitFor();
    const warehouse = async () => (await server.client.catalogs('default').get()).warehouse;
    await eventually('the catalog is in the cluster', async () => (await warehouse()) === 'lake', 60_000);
    assert.deepEqual(await server.rows('shop', 'SELECT count(*), sum(id) FROM orders'), [[1000, 499500]]);
    await consolePage.photograph('move_task');
    await page.goto(`${server.url}/console/catalog`);
    await page.getByRole('row', { name: /default Ready lake/i }).waitFor();
    await consolePage.close();
  });

  it('ends the dry run of a dialog that is closed', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'catalog/default' });
    const { page } = consolePage;
    const answer = Promise.withResolvers<void>();
    await page.route('**/catalogs/default/move', async (route) => {
      const response = await route.fetch();
      await answer.promise;
      await route.fulfill({ response });
    });
    await page.getByRole('button', { name: 'More actions' }).click();
    await page.getByRole('menuitem', { name: 'Move…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Move catalog default' });
    await dialog.getByLabel('To the warehouse').click();
    await page.getByRole('option', { name: /^default/ }).click();
    await dialog.getByRole('button', { name: 'Check' }).click();
    await dialog.getByRole('progressbar').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    const cancelled = page.waitForRequest(/\/api\/v2\/tasks\/[^/]+\/cancel$/);
    answer.resolve();
    await cancelled;
    await consolePage.close();
  });

  it('shows the replicas of a table, and one on a lost server', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'catalog/default/shop/orders' });
    const { page } = consolePage;
    await page.getByRole('tab', { name: 'Storage' }).click();
    await page.getByText('3 of 3').waitFor();
    for (const backend of ['node-1', 'node-2', 'node-3'])
      await page.getByRole('row').filter({ hasText: backend }).waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('cluster_tablets');
    await ring.nodes[1]?.kill();
    await eventually('the server is lost', async () => {
      const { availability } = await server.client.warehouses('lake').backends('node-2').get();
      return availability !== 'available';
    });
    await page.getByText('2 of 3').waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('cluster_lost_replica');
    await ring.nodes[1]?.start();
    await eventually('the server has returned', async () => {
      const { availability } = await server.client.warehouses('lake').backends('node-2').get();
      return availability === 'available';
    });
    await consolePage.close();
  });

  it('shows what a decommission waits for, and cancels it', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'warehouses/lake' });
    const { page } = consolePage;
    const third = page.getByRole('article').filter({ has: page.getByRole('heading', { name: 'node-3' }) });
    await third.getByRole('button', { name: 'Decommission' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Decommission backend' }).click();
    await third.getByText('The cluster still writes to it').first().waitFor();
    await page.getByText('writes and changes are refused until all are available').waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('cluster_decommission');
    await third.getByRole('button', { name: 'Cancel the decommission' }).click();
    await third.getByText('Available', { exact: true }).waitFor();
    await consolePage.close();
  });
});

describe('servers in the console', { skip: noBrowser || missingPostgresql }, () => {
  it('lists the servers of one store, and removes one that is lost, with its warehouses if it has any', async () => {
    const browser = await launchBrowser();
    const places = await newPlaces();
    const one = await places.one.start();
    let two = await places.two.start();
    try {
      const consolePage = await ConsolePage.open(browser, one, { path: 'warehouses' });
      const { page } = consolePage;
      const servers = page.getByRole('region', { name: 'Servers' });
      const remaining = async () => (await one.client.servers.list().all()).map(({ serverId }) => serverId);
      const shortId = (id: string) => id.slice(-12);
      const removal = (id: string) => page.getByRole('dialog', { name: `Remove server ${shortId(id)}?` });

      await servers.getByText(`${shortId(places.one.id())} (this one)`).waitFor();
      const empty = places.two.id();
      await servers.getByText(shortId(empty)).waitFor();
      await page.setViewportSize({ width: 390, height: 844 });
      await servers.getByText(shortId(empty)).waitFor();
      await consolePage.checkAccessibility();
      await servers.scrollIntoViewIfNeeded();
      await consolePage.photograph('servers_narrow');
      await page.setViewportSize({ width: 1280, height: 800 });
      await kill(two);
      await servers.getByRole('button', { name: 'Remove' }).click();
      await removal(empty).getByText('its results and files are lost.').waitFor();
      await consolePage.checkAccessibility();
      await consolePage.photograph('server_removal');
      await removal(empty).getByRole('button', { name: 'Cancel' }).click();
      assert.deepEqual((await remaining()).length, 2);
      await servers.getByRole('button', { name: 'Remove' }).click();
      await removal(empty).getByRole('button', { name: 'Remove server', exact: true }).click();
      await removal(empty).waitFor({ state: 'detached' });
      await servers.waitFor({ state: 'detached' });
      assert.deepEqual(await remaining(), [places.one.id()]);

      rmSync(places.two.directory, { recursive: true });
      two = await places.two.start();
      await two.client.warehouses.create({ name: 'second' });
      await seeEachOther(one, two, ['default', 'second']);
      await servers.getByText('(this one)').waitFor();
      await servers.getByText(/has second/).waitFor();
      await kill(two);
      await servers.getByText(/does not respond/).waitFor();
      await consolePage.checkAccessibility();
      await consolePage.photograph('servers');
      await servers.getByRole('button', { name: 'Remove' }).click();
      const dialog = removal(places.two.id());
      await dialog.getByText('the warehouse second with all its catalogs is deleted').waitFor();
      await consolePage.checkAccessibility();
      await consolePage.photograph('server_removal_cascade');
      await dialog.getByRole('button', { name: 'Remove server and warehouses' }).click();
      await dialog.waitFor({ state: 'detached' });
      await servers.waitFor({ state: 'detached' });
      await page.getByRole('link', { name: 'second' }).waitFor({ state: 'detached' });
      assert.deepEqual(await remaining(), [places.one.id()]);
      assert.deepEqual(
        (await one.client.warehouses.list().all()).map(({ name }) => name),
        ['default'],
      );
      await consolePage.close([/status of 503/]);
    } finally {
      await browser.close();
      await one.close();
      await two.close();
      places.remove();
    }
  });
});
