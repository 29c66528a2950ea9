// The start page and the load room: demo data, a token for programs, what was done last; a file from the drop to the table, with corrected
// columns and rejected rows.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Browser } from 'playwright-core';
import { start, type TestServer } from '../server.ts';
import { ConsolePage, launchBrowser, noBrowser, phone } from './browser.ts';

describe('the start page and the load room', { skip: noBrowser }, () => {
  let server: TestServer;
  let browser: Browser;
  before(async () => {
    [server, browser] = await Promise.all([start(), launchBrowser()]);
  });
  after(() => Promise.all([browser?.close(), server?.close()]));

  it('creates the demo data, whose query is shown and works', async () => {
    const opened = await ConsolePage.open(browser, server);
    const { page } = opened;
    await page.getByText('Nothing was run yet.').waitFor();
    await page.getByRole('button', { name: 'Create the demo data' }).click();
    const shown = page.getByRole('region', { name: 'Revenue by city' });
    await shown.waitFor();
    const sql = await shown.innerText();
    assert.equal((await server.query('demo', sql)).is(200).at<unknown[]>('rows').length, 5 * 24);
    const orders = (await server.get('/api/v2/databases/demo/tables/orders')).is(200);
    assert.ok(orders.at<{ name: string }[]>('columns').length === 6);
    assert.deepEqual(await server.rows('demo', 'SELECT count(*), count(DISTINCT customer_id) FROM orders'), [
      [200000, 1000],
    ]);
    await page.reload();
    await page.getByText('date_trunc').first().waitFor();
    await page.getByRole('region', { name: 'Recent statements' }).getByText('sum(o.quantity').waitFor();
    await opened.checkAccessibility();
    await opened.photograph('start');
    await opened.close();
  });

  it('shows how programs connect, and makes a token for them', async () => {
    const opened = await ConsolePage.open(browser, server, { path: 'start' });
    const { page } = opened;
    await page.getByRole('button', { name: 'Create a token' }).click();
    const shown = await page.getByRole('region', { name: 'Token' }).innerText();
    const secret = shown.replace('export TOKEN=', '').trim();
    const reply = await server.request('POST', '/api/v2/users/identify', {
      body: {},
      headers: { authorization: `Bearer ${secret}` },
    });
    reply.is(200, '0', { name: 'root', credential: 'token' });
    await page.getByRole('button', { name: 'Copy curl' }).click();
    const curl = await page.evaluate<string>('navigator.clipboard.readText()');
    assert.ok(curl.includes(`${server.url}/api/v2/catalogs/default/query`), curl);
    await page.getByRole('tab', { name: 'Python' }).click();
    await page.getByText('urllib.request.urlopen').waitFor();
    await opened.close();
  });

  const csv = (lines: readonly string[]) => ({
    name: 'Orders 2026.csv',
    mimeType: 'text/csv',
    buffer: Buffer.from(`id;price;placed on;note\n${lines.join('\n')}\n`),
  });
  const good = Array.from(
    { length: 50 },
    (_, i) => `${i};${i}.5;2026-01-${String((i % 28) + 1).padStart(2, '0')};n${i}`,
  );

  it('loads a file with corrected columns, and shows the rejected rows with their reasons', async () => {
    const opened = await ConsolePage.open(browser, server, { path: 'load' });
    const { page } = opened;
    await page.getByText('Drop a file here').waitFor();
    await opened.checkAccessibility();
    await opened.photograph('load_empty');
    await page.getByLabel('File to load').setInputFiles(csv([...good, 'fifty;1;2026-01-01;bad']));
    await page.getByLabel('Name of placed on').fill('placed_on');
    await page.getByLabel('Type of id').fill('INT');
    await page.getByLabel('Load note').uncheck();
    assert.equal(await page.getByLabel('New table').inputValue(), 'orders_2026');
    await page.getByLabel('Rows that may be rejected').fill('5');
    await opened.checkAccessibility();
    await opened.photograph('load_columns');
    await page.getByRole('button', { name: 'Load', exact: true }).click();
    await page.getByRole('heading', { name: /50 rows loaded/ }).waitFor();
    await page.getByRole('heading', { name: '1 row was rejected' }).waitFor();
    await page.getByRole('cell', { name: 'id', exact: true }).waitFor();
    await opened.checkAccessibility();
    await opened.photograph('load_rejected');
    const { columns } = (await server.get('/api/v2/databases/demo/tables/orders_2026')).is(200).result as {
      columns: { name: string; type: string }[];
    };
    assert.deepEqual(
      columns.map(({ name }) => name),
      ['id', 'price', 'placed_on'],
    );
    assert.equal(columns[0]?.type, 'INT');
    await opened.close();
  });

  it('shows why a load failed, and lets it be tried again', async () => {
    const opened = await ConsolePage.open(browser, server, { path: 'load' });
    const { page } = opened;
    await page.getByLabel('File to load').setInputFiles(csv(good));
    await page.getByLabel('Type of note').fill('INT');
    await page.getByLabel('New table').fill('again');
    await page.getByRole('button', { name: 'Load', exact: true }).click();
    await page.getByRole('alert').getByText('DATA_INVALID').waitFor();
    await opened.photograph('load_failed');
    await page.getByLabel('Type of note').fill('STRING');
    await page.getByRole('button', { name: 'Load', exact: true }).click();
    await page.getByRole('heading', { name: /50 rows loaded/ }).waitFor();
    await opened.close();
  });

  it('fits on a phone, and in the dark', async () => {
    const opened = await ConsolePage.open(browser, server, { ...phone, colorScheme: 'dark', path: 'start' });
    const { page } = opened;
    await page.getByText('date_trunc').first().waitFor();
    await opened.checkAccessibility();
    await opened.photograph('start_phone');
    assert.equal(await page.evaluate<number>('document.documentElement.scrollWidth'), 390);
    await opened.close();
  });
});
