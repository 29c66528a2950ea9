// The start page and the load room: demo data, a token for programs, what was done last; a file from the drop to the table, with corrected
// columns and rejected rows.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import type { Browser, Locator } from 'playwright-core';
import { newPerson } from '../access/people.ts';
import { eventually } from '../deadline.ts';
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
    const consolePage = await ConsolePage.open(browser, server);
    const { page } = consolePage;
    await page.getByText('Nothing was run yet.').waitFor();
    await page.getByRole('button', { name: 'Create the demo data' }).click();
    const region = page.getByRole('region', { name: 'Revenue by city' });
    await region.waitFor();
    const sql = await region.innerText();
    assert.equal((await server.query('demo', sql)).is(200).at<unknown[]>('rows').length, 5 * 24);
    const orders = (await server.get('/api/v2/databases/demo/tables/orders')).is(200);
    assert.ok(orders.at<{ name: string }[]>('columns').length === 6);
    assert.deepEqual(await server.rows('demo', 'SELECT count(*), count(DISTINCT customer_id) FROM orders'), [
      [200000, 1000],
    ]);
    await page.reload();
    await page.getByText('date_trunc').first().waitFor();
    await page.getByRole('region', { name: 'Recent statements' }).getByText('sum(o.quantity').waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('start');
    const text = page.getByRole('textbox', { name: 'SQL' });
    await page.getByRole('link', { name: 'Open the query in the editor' }).click();
    await text.getByText('date_trunc').waitFor();
    await page.getByRole('button', { name: /^Run/ }).click();
    await page.getByRole('gridcell', { name: 'Lagos' }).first().waitFor();
    await page.getByRole('group', { name: 'Show' }).getByRole('button', { name: 'Chart' }).click();
    await page
      .getByRole('img', { name: 'Line chart of the result, by city: Berlin, Lagos, Lima, Osaka, Oslo' })
      .locator('canvas')
      .first()
      .waitFor();
    await consolePage.photograph('demo_chart');
    await page.getByRole('link', { name: 'Start' }).click();
    await page
      .getByRole('region', { name: 'Recent statements' })
      .getByRole('link', { name: /count\(DISTINCT/ })
      .click();
    await text.getByText('customer_id').waitFor();
    await consolePage.close();
  });

  it('shows types and states of tasks and warehouses as their own pages do, and the first request whole', async () => {
    (await server.put('/api/v2/databases/states')).is(201);
    const columns = [{ name: 'id', type: 'BIGINT' }];
    (await server.put('/api/v2/databases/states/tables/t', { columns })).is(201);
    await server.ended(await server.post('/api/v2/databases/states/tables/t/checksum'));
    const consolePage = await ConsolePage.open(browser, server, { path: 'start' });
    const { page } = consolePage;
    await page.getByRole('region', { name: 'Recent tasks' }).getByRole('link', { name: 'Checksum table' }).waitFor();
    const curl = page.getByRole('region', { name: 'curl', exact: true });
    assert.equal(await curl.evaluate((element) => element.scrollWidth - element.clientWidth), 0);
    await consolePage.photograph('start_states');
    // The class says the color.
    const classOf = (place: Locator) => place.getByText('Running', { exact: true }).first().getAttribute('class');
    const onStart = await classOf(page.getByRole('region', { name: 'Warehouses' }));
    await page.goto(`${server.url}/console/warehouses/default`);
    await page.getByRole('heading', { name: 'default' }).waitFor();
    assert.equal(await classOf(page.getByRole('heading', { name: 'default' }).locator('..')), onStart);
    await consolePage.close();
  });

  it('loads the Star Schema Benchmark, also after it was cancelled, and offers its queries', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'start' });
    const { page } = consolePage;
    // Without the periodic refresh, what the page does has to refresh it.
    await page.addInitScript(() => {
      const { setInterval } = globalThis;
      globalThis.setInterval = ((call: () => void, ms: number) =>
        ms === 10_000 ? 0 : setInterval(call, ms)) as typeof setInterval;
    });
    await page.reload();
    const { promise: isReleased, resolve: release } = Promise.withResolvers<void>();
    const { promise: isSent, resolve: send } = Promise.withResolvers<void>();
    await page.route(/\/tables\/lineorder\/rows$/, async (route) => {
      send();
      await isReleased;
      await route.fallback();
    });
    const panel = page.getByRole('region', { name: 'Star Schema Benchmark' });
    await panel.getByRole('button', { name: 'Load the benchmark' }).click();
    await isSent;
    await panel.getByText(/of 64,877 rows, loading lineorder/).waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('start_ssb_loading');
    await panel.getByRole('button', { name: 'Cancel' }).click();
    release();
    await panel.getByText('A load was not completed.').waitFor();
    const counts = 'SELECT count(*), count(DISTINCT (lo_orderkey, lo_linenumber)) FROM lineorder';
    assert.deepEqual(await server.rows('ssb', counts), [[5000, 5000]]);
    await panel.getByRole('button', { name: 'Continue the load' }).click();
    const queries = panel.getByRole('list', { name: 'Queries of the benchmark' }).getByRole('link');
    await queries.first().waitFor();
    assert.equal(await queries.count(), 13);
    assert.deepEqual(await server.rows('ssb', counts), [[60_000, 60_000]]);
    const recent = page.getByRole('region', { name: 'Recent statements' });
    await recent.getByText('(SELECT count(*) FROM customer)').first().waitFor();
    await consolePage.photograph('start_ssb');
    await queries.filter({ hasText: 'Q2.1' }).click();
    await page.getByRole('textbox', { name: 'SQL' }).getByText('MFGR#12').waitFor();
    await page.getByRole('button', { name: /^Run/ }).click();
    await page
      .getByRole('status')
      .filter({ hasText: /\d rows? ·/ })
      .waitFor();
    await page.getByRole('link', { name: 'Start' }).click();
    await recent.getByText('p_brand1').first().waitFor();
    await consolePage.close();
  });

  it('keeps a database of another origin with the name of the benchmark as it is', async () => {
    (await server.post('/api/v2/databases/ssb/rename', { newName: 'ssb_before' })).is(200);
    (await server.post('/api/v2/databases', { name: 'ssb' })).is(201);
    const consolePage = await ConsolePage.open(browser, server, { path: 'start' });
    const panel = consolePage.page.getByRole('region', { name: 'Star Schema Benchmark' });
    await panel.getByText('is not that of the benchmark').waitFor();
    assert.equal(await panel.getByRole('button').count(), 0);
    await consolePage.close();
  });

  it('shows how programs connect, and makes a token for them', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'start' });
    const { page } = consolePage;
    await page.getByRole('button', { name: 'Create a token' }).click();
    const tokenText = await page.getByRole('region', { name: 'Token' }).innerText();
    const secret = tokenText.replace('export TOKEN=', '').trim();
    const reply = await server.request('POST', '/api/v2/users/identify', {
      body: {},
      headers: { authorization: `Bearer ${secret}` },
    });
    reply.is(200, '0', { name: 'root', credential: 'token' });
    await page.getByRole('button', { name: 'Copy curl' }).click();
    await eventually('the call is in the clipboard', async () =>
      (await page.evaluate<string>('navigator.clipboard.readText()')).includes(
        `${server.url}/api/v2/catalogs/default/query`,
      ),
    );
    await page.getByRole('tab', { name: 'Python' }).click();
    await page.getByText('urllib.request.urlopen').waitFor();
    await consolePage.close();
  });

  const csv = (lines: readonly string[]) => ({
    name: 'Orders 2026.csv',
    mimeType: 'text/csv',
    buffer: Buffer.from(`id;price;placed on;note\n${lines.join('\n')}\n`),
  });
  const validLines = Array.from(
    { length: 50 },
    (_, i) => `${i};${i}.5;2026-01-${String((i % 28) + 1).padStart(2, '0')};n${i}`,
  );

  it('loads a file with corrected columns, and shows the rejected rows with their reasons', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'load' });
    const { page } = consolePage;
    await page.getByText('Drop a file here').waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('load_empty');
    await page.getByLabel('File to load').setInputFiles(csv([...validLines, 'fifty;1;2026-01-01;bad']));
    await page.getByLabel('Name of placed on').fill('placed_on');
    await page.getByLabel('Type of id').fill('INT');
    await page.getByLabel('Load note').uncheck();
    assert.equal(await page.getByLabel('New table').inputValue(), 'orders_2026');
    await page.getByLabel('Rows that may be rejected').fill('5');
    await consolePage.checkAccessibility();
    await consolePage.photograph('load_columns');
    await page.getByRole('button', { name: 'Load', exact: true }).click();
    await page.getByRole('heading', { name: /50 rows loaded/ }).waitFor();
    await page.getByRole('heading', { name: '1 row was rejected' }).waitFor();
    await page.getByRole('cell', { name: 'id', exact: true }).waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('load_rejected');
    const { columns } = (await server.get('/api/v2/databases/demo/tables/orders_2026')).is(200).result as {
      columns: { name: string; type: string }[];
    };
    assert.deepEqual(
      columns.map(({ name }) => name),
      ['id', 'price', 'placed_on'],
    );
    assert.equal(columns[0]?.type, 'INT');
    await consolePage.close();
  });

  it('shows why a load failed, and lets it be tried again', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'load' });
    const { page } = consolePage;
    await page.getByLabel('File to load').setInputFiles(csv(validLines));
    await page.getByLabel('Type of note').fill('INT');
    await page.getByLabel('New table').fill('again');
    await page.getByRole('button', { name: 'Load', exact: true }).click();
    await page.getByRole('alert').getByText('DATA_INVALID').waitFor();
    await consolePage.photograph('load_failed');
    await page.getByLabel('Type of note').fill('STRING');
    await page.getByRole('button', { name: 'Load', exact: true }).click();
    await page.getByRole('heading', { name: /50 rows loaded/ }).waitFor();
    await consolePage.close();
  });

  it('reads files that are not in UTF-8, and lets the user correct how a file is read', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'load' });
    const { page } = consolePage;
    const choose = (name: string, buffer: Buffer) =>
      page.getByLabel('File to load').setInputFiles({ name, mimeType: 'text/csv', buffer });
    await choose('staff.csv', Buffer.from('id;name\n1;M\u00fcller\n', 'latin1'));
    await page.getByRole('cell', { name: 'M\u00fcller' }).waitFor();
    assert.match(await page.getByLabel('Encoding').innerText(), /Latin-1/);
    await page.getByRole('button', { name: 'Load', exact: true }).click();
    await page.getByRole('heading', { name: /1 row loaded/ }).waitFor();
    assert.deepEqual(await server.rows('demo', 'SELECT * FROM staff'), [[1, 'M\u00fcller']]);
    await page.getByRole('button', { name: 'Load another file' }).click();
    await choose('wide.csv', Buffer.from('\ufeffid,name\n1,M\u00fcller\n', 'utf16le'));
    await page.getByRole('cell', { name: 'M\u00fcller' }).waitFor();
    await page.getByRole('button', { name: 'Choose another file' }).click();
    await choose('ragged.csv', Buffer.from('a,b\n1,2\n3\n4,5\n'));
    await page.getByText('1 of the first 3 rows does not fit the columns of the file.').waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('load_ragged');
    await page.getByRole('button', { name: 'Choose another file' }).click();
    await choose('twice.csv', Buffer.from('a,A\n1,2\n'));
    await page.getByText('the file has two columns named').waitFor();
    assert.equal(await page.getByText('Finding the columns').count(), 0);
    await consolePage.checkAccessibility();
    await consolePage.photograph('load_unreadable');
    await page.getByLabel('First line').click();
    await page.getByRole('option', { name: 'A row' }).click();
    await page.getByLabel('Load column1').waitFor();
    await consolePage.close([/400 \(Bad Request\)/]);
  });

  const stock = (lines: readonly string[]) => ({
    name: 'stock.csv',
    mimeType: 'text/csv',
    buffer: Buffer.from(`ID,amount,seen,extra\n${lines.join('\n')}\n`),
  });

  it('adds a file to an existing table as its columns are mapped, and shows all rejected rows', async () => {
    const columns = [
      { name: 'id', type: 'BIGINT', nullable: false },
      { name: 'count', type: 'INT', nullable: false },
      { name: 'seen', type: 'DATETIME' },
      { name: 'place', type: 'STRING', defaultValue: "'shelf'" },
    ];
    await server.client.databases('demo').tables.create({ name: 'stock', columns, primaryKey: ['id'] });
    const lines = Array.from({ length: 120 }, (_, i) => `${i},${i < 5 ? i : 'many'},2026-01-01,x`);
    const consolePage = await ConsolePage.open(browser, server, { path: 'catalog/default/demo/stock' });
    const { page } = consolePage;
    await page.getByRole('button', { name: 'Load a file' }).click();
    await page.getByText('Its rows are loaded into demo.stock.').waitFor();
    await page.getByLabel('File to load').setInputFiles(stock(lines));
    const row = (name: string) => page.getByRole('row', { name: new RegExp(`^${name} `) });
    await row('count').getByText('Needs a source').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Load', exact: true }).isEnabled(), false);
    await page.getByText('Not loaded from the file: amount, extra').waitFor();
    assert.equal(await page.getByLabel('Source of id').inputValue(), 'ID');
    await page.getByLabel('Source of count').selectOption('seen');
    await row('count').getByText('DATE does not match INT').waitFor();
    await page.getByLabel('Source of count').selectOption('amount');
    await row('count').getByText('STRING: a row whose value is no INT is rejected').waitFor();
    await row('seen').getByText('DATE is converted').waitFor();
    await row('place').getByText("'shelf' in each row").waitFor();
    await page.getByLabel('Rows that may be rejected').fill('200');
    await consolePage.checkAccessibility();
    await consolePage.photograph('load_mapping');
    await page.getByRole('button', { name: 'Load', exact: true }).click();
    await page.getByRole('heading', { name: '5 rows loaded into demo.stock' }).waitFor();
    await page.getByRole('heading', { name: '115 rows were rejected' }).waitFor();
    await page.getByText('The first 100:').waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('load_rejected_all');
    const downloading = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Download all rejected rows' }).click();
    const rejected = await readFile(await (await downloading).path(), 'utf8');
    assert.equal(rejected.trim().split('\n').length, 115);
    const rows = await server.rows('demo', 'SELECT id, count, place FROM stock ORDER BY id');
    assert.deepEqual(
      rows,
      [0, 1, 2, 3, 4].map((i) => [i, i, 'shelf']),
    );
    await consolePage.close();
  });

  it('adds a file to the only table that a user may write', async () => {
    (await server.post('/api/v2/databases', { name: 'reports' })).is(201);
    const columns = [{ name: 'amount', type: 'INT' }];
    await server.client.databases('reports').tables.create({ name: 'counts', columns });
    const table = '/catalogs/default/databases/reports/tables/counts';
    const writer = await newPerson(server, 'writer', [
      ['create', '/uploads'],
      ['read', table],
      ['write', table],
      ['use', '/warehouses/default'],
    ]);
    const path = 'load/default/reports/counts';
    const consolePage = await ConsolePage.open(browser, server, { path, token: writer.token });
    const { page } = consolePage;
    await page.getByLabel('File to load').setInputFiles(stock(['900,41,2026-02-01,x']));
    await page.getByText('Not loaded from the file: ID, seen, extra').waitFor();
    await consolePage.photograph('load_one_table');
    await page.getByRole('button', { name: 'Load', exact: true }).click();
    await page.getByRole('heading', { name: '1 row loaded into reports.counts' }).waitFor();
    assert.deepEqual(await server.rows('reports', 'SELECT amount FROM counts'), [[41]]);
    await consolePage.close([/status of 40/]);
  });

  it('lets a user who may create no table choose one that he may write', async () => {
    const columns = [{ name: 'amount', type: 'INT' }];
    await server.client.databases('reports').tables.create({ name: 'sums', columns });
    const table = '/catalogs/default/databases/reports/tables/sums';
    const clerk = await newPerson(server, 'clerk', [
      ['create', '/uploads'],
      ['read', table],
      ['write', table],
      ['use', '/warehouses/default'],
    ]);
    const consolePage = await ConsolePage.open(browser, server, { path: 'load', token: clerk.token });
    const { page } = consolePage;
    await page.getByLabel('File to load').setInputFiles(stock(['900,42,2026-02-01,x']));
    await page.getByRole('alert').getByText('FORBIDDEN').waitFor();
    const other = page.getByRole('region', { name: 'Another table' });
    await other.getByRole('combobox', { name: 'Load into' }).click();
    await page.getByRole('option', { name: 'An existing table' }).click();
    await other.getByLabel('Table', { exact: true }).fill('sums');
    await consolePage.checkAccessibility();
    await consolePage.photograph('load_other_table');
    await other.getByRole('button', { name: 'Continue with this table' }).click();
    await page.getByText('Not loaded from the file: ID, seen, extra').waitFor();
    await page.getByRole('button', { name: 'Load', exact: true }).click();
    await page.getByRole('heading', { name: '1 row loaded into reports.sums' }).waitFor();
    assert.deepEqual(await server.rows('reports', 'SELECT amount FROM sums'), [[42]]);
    await consolePage.close([/status of 40/]);
  });

  it('does not load a file twice under the same label', async () => {
    const consolePage = await ConsolePage.open(browser, server, { ...phone, colorScheme: 'dark', path: 'load' });
    const { page } = consolePage;
    const load = async () => {
      await page.getByLabel('File to load').setInputFiles(stock(['7,7,2026-02-01,x']));
      await page.getByRole('combobox', { name: 'Load into' }).click();
      await page.getByRole('option', { name: 'An existing table' }).click();
      await page.getByLabel('Table', { exact: true }).fill('stock');
      await page.getByLabel('Source of count').selectOption('amount');
      assert.match(await page.getByLabel('Label', { exact: true }).inputValue(), /^stock\.csv \d{4}-/);
      await page.getByLabel('Label', { exact: true }).fill('stock of February');
    };
    await load();
    await consolePage.checkAccessibility();
    await consolePage.photograph('load_mapping_phone');
    assert.equal(await page.evaluate<number>('document.documentElement.scrollWidth'), 390);
    await page.getByRole('button', { name: 'Load', exact: true }).click();
    await page.getByRole('heading', { name: '1 row loaded into demo.stock' }).waitFor();
    await page.getByRole('button', { name: 'Load another file' }).click();
    await load();
    await page.getByRole('button', { name: 'Load', exact: true }).click();
    await page.getByRole('heading', { name: 'Not loaded again into demo.stock' }).waitFor();
    await page.getByText('change the label').waitFor();
    assert.deepEqual(await server.rows('demo', 'SELECT count(*) FROM stock'), [[6]]);
    await consolePage.close();
  });

  it('says that a file was not loaded again into a new table under the same label', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'load' });
    const { page } = consolePage;
    const load = async (lines: readonly string[]) => {
      await page.getByLabel('File to load').setInputFiles(stock(lines));
      await page.getByLabel('New table').fill('labelled');
      await page.getByLabel('Label', { exact: true }).fill('first of March');
      await page.getByRole('button', { name: 'Load', exact: true }).click();
    };
    await load(['1,1,2026-03-01,x']);
    await page.getByRole('heading', { name: '1 row loaded into demo.labelled' }).waitFor();
    await page.getByRole('button', { name: 'Load another file' }).click();
    await load(['1,1,2026-03-01,x', '2,2,2026-03-01,x']);
    await page.getByRole('heading', { name: 'Not loaded again into demo.labelled' }).waitFor();
    await page.getByText('give the table another name').waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('load_not_again');
    assert.deepEqual(await server.rows('demo', 'SELECT count(*) FROM labelled'), [[1]]);
    await consolePage.close();
  });

  it('fits on a phone, and in the dark', async () => {
    const consolePage = await ConsolePage.open(browser, server, { ...phone, colorScheme: 'dark', path: 'start' });
    const { page } = consolePage;
    await page.getByText('date_trunc').first().waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('start_phone');
    assert.equal(await page.evaluate<number>('document.documentElement.scrollWidth'), 390);
    await consolePage.close();
  });
});
