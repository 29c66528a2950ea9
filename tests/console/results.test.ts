// What becomes of a result besides its rows: charts of each kind, the columns at a glance, the profile, and the history of statements.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { eventually } from '../deadline.ts';
import { start, type TestServer } from '../server.ts';
import { ConsolePage, launchBrowser, noBrowser } from './browser.ts';

describe('a result', { skip: noBrowser }, () => {
  let server: TestServer;
  let browser: Browser;
  before(async () => {
    [server, browser] = await Promise.all([start({ pageBytesMax: 64 * 1024 }), launchBrowser()]);
  });
  after(() => Promise.all([browser?.close(), server?.close()]));

  const open = async (sql: string, options: Parameters<typeof ConsolePage.open>[2] = {}) => {
    const path = `sql?${new URLSearchParams({ sql })}`;
    const consolePage = await ConsolePage.open(browser, server, { path, ...options });
    const { page } = consolePage;
    // The text of the address is in the editor.
    await page
      .getByRole('textbox', { name: 'SQL' })
      .filter({ hasText: sql.slice(0, 12) })
      .waitFor();
    await page.getByRole('button', { name: /^Run/ }).click();
    await page
      .getByRole('status')
      .filter({ hasText: /\d rows?/ })
      .waitFor();
    return { consolePage, page };
  };
  const show = (page: Page, view: string) =>
    page.getByRole('group', { name: 'Show' }).getByRole('button', { name: view }).click();

  const sales = `SELECT month, region, sum(amount) AS revenue, count(*) AS orders FROM (
    SELECT DATE '2025-01-01' + to_months((i % 12)::INTEGER) AS month, ['north', 'south', 'east'][1 + (i // 12) % 3] AS region,
      100 + (i * 37) % 500 AS amount FROM range(600) t(i)) GROUP BY ALL ORDER BY month, region`;

  it('is shown from its first page on, while later ones are computed', async () => {
    const sql = `SELECT i AS n, repeat('x', 100) AS t, list_sum(list_transform(range(least(i // 50, 500)), lambda x: x * i)) AS s FROM range(10000000) AS r(i)`;
    const { consolePage, page } = await open("SELECT 'the engine has started'");
    await page.getByRole('textbox', { name: 'SQL' }).fill(sql);
    const status = page.getByRole('status').filter({ hasText: 'so far' });
    const cancel = page.getByRole('main').getByRole('button', { name: 'Cancel', exact: true });
    // The first rows cost little. They are shown whether they come within the wait of the request or of a task.
    await page.getByRole('button', { name: /^Run/ }).click();
    await status.waitFor();
    await page.getByRole('gridcell', { name: '7', exact: true }).waitFor();
    const count = async () => Number((await status.innerText()).replace(/ row.*/s, '').replaceAll(/\D/g, ''));
    const before = await count();
    await eventually('more rows arrive', async () => (await count()) > before);
    await consolePage.checkAccessibility();
    await consolePage.photograph('rows_so_far');
    // The grid scrolls to the last row that has arrived, whose page is fetched without those before it.
    const grid = page.getByRole('grid', { name: 'Result' });
    await grid.evaluate((element) => element.scrollTo(0, element.scrollHeight));
    await eventually('the last rows are shown', async () => {
      const shown = await grid.getByRole('gridcell').first().getAttribute('data-row');
      return (
        Number(shown) > before / 2 && (await grid.getByText(String(Number(shown) + 2), { exact: true }).count()) > 0
      );
    });
    await cancel.last().click();
    await page.getByRole('alert').getByText('Cancelled', { exact: true }).waitFor();
    await page.getByRole('gridcell').first().waitFor();
    await eventually('nothing runs any more', async () => {
      const running = (await server.post('/api/v2/queries/search', { state: 'running' })).is(200);
      return running.at<unknown[]>('queries').length === 0;
    });
    await consolePage.close();
  });

  it('is shown from its first page on, too, if its statement waited longer than the request', async () => {
    (await server.post('/api/v2/warehouses', { name: 'single', queriesMax: 1 })).is(201);
    (await server.post('/api/v2/catalogs', { name: 'lab', warehouse: 'single' })).is(201);
    const endless = 'SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range % 7 = b.range % 11';
    const blocking = (await server.post('/api/v2/catalogs/lab/query', { sql: endless, waitSeconds: 0.2 })).is(202);
    const sql = `SELECT i AS n, repeat('x', 100) AS t, list_sum(list_transform(range(500), lambda x: x * i)) AS s FROM range(10000000) AS r(i)`;
    const path = `sql?${new URLSearchParams({ sql, catalog: 'lab' })}`;
    const consolePage = await ConsolePage.open(browser, server, { path });
    const { page } = consolePage;
    await page.getByRole('textbox', { name: 'SQL' }).filter({ hasText: 'SELECT i AS n' }).press('Control+Enter');
    await page.getByRole('status').filter({ hasText: 'Waiting in the queue, number 1' }).waitFor();
    (await server.post(`${blocking.at<string>('uri')}/cancel`)).is(200);
    await page.getByRole('status').filter({ hasText: 'rows so far' }).waitFor();
    await page.getByRole('gridcell', { name: '7', exact: true }).waitFor();
    await page.getByText(/waited \d/).waitFor();
    await consolePage.photograph('rows_so_far_of_a_task');
    await page.getByRole('main').getByRole('button', { name: 'Cancel', exact: true }).last().click();
    await page.getByRole('alert').getByText('Cancelled', { exact: true }).waitFor();
    await page.getByRole('gridcell').first().waitFor();
    await consolePage.close();
  });

  it('is sorted and downloaded as text with all its pages, without running the statement again', async () => {
    const { consolePage, page } = await open("SELECT i AS n, repeat('x', 100) AS t FROM range(20000) AS r(i)");
    await page
      .getByRole('status')
      .filter({ hasText: /^20,000 rows ·/ })
      .waitFor();
    const statements = async () =>
      (await server.post('/api/v2/queries/search', { text: 'range(20000)' })).is(200).at<unknown[]>('queries').length;
    for (const [format, lines] of [
      ['CSV', 20_001],
      ['JSON lines', 20_000],
    ] as const) {
      const download = page.waitForEvent('download');
      await page.getByRole('button', { name: 'Download' }).click();
      await page.getByRole('menuitem', { name: format }).click();
      const text = await readFile(await (await download).path(), 'utf8');
      assert.equal(text.trimEnd().split('\n').length, lines);
      assert.ok(text.trimEnd().split('\n').at(-1)?.includes('19999'));
    }
    assert.equal(await statements(), 1);
    const header = page.getByRole('columnheader', { name: /^n/ });
    await header.getByRole('button').click();
    await page.locator('[role=columnheader][aria-sort=ascending]').waitFor();
    await header.getByRole('button').click();
    await page.getByRole('gridcell', { name: '19999', exact: true }).waitFor();
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download' }).click();
    await page.getByRole('menuitem', { name: 'Parquet (runs again)' }).click();
    assert.match((await download).suggestedFilename(), /\.parquet$/);
    await eventually('the statement was run again', async () => (await statements()) === 2);
    await consolePage.close();
  });

  it('is drawn as each kind of chart, after a suggestion from its types', async () => {
    const { consolePage, page } = await open(sales);
    await show(page, 'Chart');
    const chartImage = (kind: string) => page.getByRole('img', { name: `${kind} chart of the result` });
    await page.getByRole('img', { name: 'Line chart of the result, by region: east, north, south' }).waitFor();
    await consolePage.photograph('chart_line');
    await page.getByRole('combobox', { name: 'Split by' }).click();
    await page.getByRole('option', { name: 'Not split' }).click();
    await page.getByRole('img', { name: 'Line chart of the result', exact: true }).waitFor();
    await page.getByRole('combobox', { name: 'Split by' }).click();
    await page.getByRole('option', { name: 'By region' }).click();
    for (const kind of ['Bar', 'Area', 'Scatter', 'Pie', 'Heat map']) {
      await page.getByRole('combobox', { name: 'Kind of chart' }).click();
      await page.getByRole('option', { name: kind, exact: true }).click();
      await chartImage(kind).locator('canvas').first().waitFor();
      await consolePage.photograph(`chart_${kind.toLowerCase().replace(' ', '_')}`);
    }
    await consolePage.checkAccessibility();
    await consolePage.close();
  });

  it('keeps its chart with the saved query', async () => {
    const { consolePage, page } = await open('SELECT i % 5 AS n, i AS v FROM range(20) t(i)');
    await show(page, 'Chart');
    await page.getByRole('combobox', { name: 'Kind of chart' }).click();
    await page.getByRole('option', { name: 'Area' }).click();
    await page.getByRole('button', { name: 'Save the query' }).click();
    await page.getByRole('textbox', { name: 'Name' }).fill('drawn');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByText('drawn created').waitFor();
    const saved = (await server.get('/api/v2/saved_queries/drawn')).is(200);
    assert.equal(saved.at('chart', 'kind'), 'area');
    await consolePage.close();
  });

  it('shows nulls, distinct values, range and histogram of each column', async () => {
    const { consolePage, page } = await open(
      "SELECT i AS id, CASE WHEN i % 4 = 0 THEN NULL ELSE 'c' || (i % 3) END AS class, sqrt(i) AS root, TIMESTAMP '2026-01-01' + i * INTERVAL 1 HOUR AS at FROM range(1000) t(i)",
    );
    await show(page, 'Columns');
    const cardNamed = (name: string) =>
      page.getByRole('list', { name: 'Columns' }).locator('> li').filter({ hasText: name }).first();
    await cardNamed('class').getByText('250 (25.0 %)').waitFor();
    await cardNamed('id').getByText('999', { exact: true }).waitFor();
    await page.getByRole('img', { name: 'Histogram of root' }).waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('columns');
    await consolePage.close();
  });

  it('is not needed to see the columns of a whole table or view', async () => {
    (await server.post('/api/v2/databases', { name: 'shop' })).is(201);
    const columns = [
      { name: 'id', type: 'BIGINT' },
      { name: 'order', type: 'STRING' },
      { name: 'price', type: 'DECIMAL(18,2)' },
      { name: 'weight', type: 'DOUBLE' },
      { name: 'placed_at', type: 'DATETIME' },
      { name: 'day', type: 'DATE' },
      { name: 'is_paid', type: 'BOOLEAN' },
      { name: 'tags', type: 'ARRAY<STRING>' },
      { name: 'nothing', type: 'INT' },
      { name: 'bytes', type: 'BINARY' },
      { name: 'at', type: 'TIMESTAMPTZ' },
    ];
    (await server.post('/api/v2/databases/shop/tables', { name: 'select', columns })).is(201);
    const rows = `SELECT i, CASE WHEN i % 4 = 0 THEN NULL ELSE 'c' || (i % 3) END, i * 1.5, CASE WHEN i = 0 THEN 'NaN'::DOUBLE ELSE i END,
      TIMESTAMP '2026-01-01' + i * INTERVAL 1 HOUR, DATE '2026-01-01' + (i % 9)::INT, i % 2 = 0, ['a'], NULL, 'x'::BLOB, now() FROM range(1000) t(i)`;
    (await server.query('shop', `INSERT INTO "select" ${rows}`)).is(200);
    (
      await server.post('/api/v2/databases/shop/views', {
        name: 'paid',
        sql: 'SELECT id, price FROM "select" WHERE is_paid',
      })
    ).is(201);
    const consolePage = await ConsolePage.open(browser, server, { path: 'catalog/default/shop/select' });
    const { page } = consolePage;
    await page.getByRole('button', { name: 'Explore columns' }).click();
    const card = (name: string) =>
      page
        .getByRole('list', { name: 'Columns' })
        .locator('> li')
        .filter({ has: page.getByRole('heading', { name, exact: true }) });
    await page
      .getByRole('status')
      .filter({ hasText: /^1,000 rows$/ })
      .waitFor();
    await card('order').getByText('250 (25.0 %)').waitFor();
    await card('order').getByText('3', { exact: true }).waitFor();
    await card('id').getByText('999', { exact: true }).waitFor();
    await card('price').getByText('1498.50', { exact: true }).waitFor();
    for (const name of ['id', 'price', 'weight', 'placed_at', 'day', 'at'])
      await page.getByRole('img', { name: `Histogram of ${name}`, exact: true }).waitFor();
    await card('nothing').getByText('1,000 (100.0 %)').waitFor();
    await card('tags').getByText('[a]').first().waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('table_columns');
    const many = { name: 'many', asSelect: { sql: 'SELECT range AS i FROM range(6000000)' } };
    await server.client.databases('shop').tables.create(many).done();
    await page.goto(`${server.url}/console/catalog/default/shop/many?tab=explore`);
    await page.getByText(/a sample of 83.3 %/).waitFor();
    await page.getByRole('img', { name: 'Histogram of i', exact: true }).waitFor();
    await consolePage.photograph('table_columns_sample');
    await page.goto(`${server.url}/console/catalog/default/shop/paid?kind=view&tab=explore`);
    await page
      .getByRole('status')
      .filter({ hasText: /^500 rows$/ })
      .waitFor();
    await card('id').getByText('998', { exact: true }).waitFor();
    await consolePage.close();
  });

  it('shows the profile as a tree with times and rows', async () => {
    const { consolePage, page } = await open(
      'SELECT i % 10 AS g, count(*) FROM range(100000) t(i) GROUP BY g ORDER BY g',
    );
    await show(page, 'Profile');
    await page.getByRole('button', { name: 'Profile the statement' }).click();
    await page.getByRole('rowheader', { name: /range/ }).waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('profile');
    await consolePage.close();
  });

  it('is found again in the history, compared, and opened in the editor', async () => {
    const { consolePage, page } = await open("SELECT 'needle' AS found");
    await page.getByRole('link', { name: 'History' }).click();
    await page.getByRole('searchbox', { name: 'Search statements' }).fill('needle');
    await page
      .getByRole('row', { name: /needle/ })
      .first()
      .click();
    const detail = page.getByRole('complementary', { name: 'Statement' });
    await detail.getByText('In the engine').waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('history');
    await detail.getByRole('button', { name: 'Open in the editor' }).click();
    const text = page.getByRole('textbox', { name: 'SQL' });
    await text.getByText("SELECT 'needle' AS found").waitFor();
    await text.fill('SELECT 0');
    await page.getByRole('link', { name: 'History' }).click();
    // In one click, from the list.
    await page
      .getByRole('row', { name: /needle/ })
      .first()
      .getByRole('button', { name: 'Open in the editor' })
      .click();
    await text.getByText("SELECT 'needle' AS found").waitFor();
    await consolePage.close();
  });
});
