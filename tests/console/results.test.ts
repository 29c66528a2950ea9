// What becomes of a result besides its rows: charts of each kind, the columns at a glance, the profile, and the history of statements.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { start, type TestServer } from '../server.ts';
import { ConsolePage, launchBrowser, noBrowser } from './browser.ts';

describe('a result', { skip: noBrowser }, () => {
  let server: TestServer;
  let browser: Browser;
  before(async () => {
    [server, browser] = await Promise.all([start(), launchBrowser()]);
  });
  after(() => Promise.all([browser?.close(), server?.close()]));

  const open = async (sql: string, options: Parameters<typeof ConsolePage.open>[2] = {}) => {
    const path = `sql?${new URLSearchParams({ sql })}`;
    const opened = await ConsolePage.open(browser, server, { path, ...options });
    const { page } = opened;
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
    return { opened, page };
  };
  const show = (page: Page, view: string) =>
    page.getByRole('group', { name: 'Show' }).getByRole('button', { name: view }).click();

  const sales = `SELECT month, region, sum(amount) AS revenue, count(*) AS orders FROM (
    SELECT DATE '2025-01-01' + to_months((i % 12)::INTEGER) AS month, ['north', 'south', 'east'][1 + (i % 3)] AS region,
      100 + (i * 37) % 500 AS amount FROM range(600) t(i)) GROUP BY ALL ORDER BY month, region`;

  it('is drawn as each kind of chart, after a suggestion from its types', async () => {
    const { opened, page } = await open(sales);
    await show(page, 'Chart');
    const chart = (kind: string) => page.getByRole('img', { name: `${kind} chart of the result` });
    await chart('Line').waitFor();
    for (const kind of ['Bar', 'Area', 'Scatter', 'Pie', 'Heat map']) {
      await page.getByRole('combobox', { name: 'Kind of chart' }).click();
      await page.getByRole('option', { name: kind, exact: true }).click();
      await chart(kind).locator('canvas').first().waitFor();
      await opened.photograph(`chart_${kind.toLowerCase().replace(' ', '_')}`);
    }
    await opened.checkAccessibility();
    await opened.close();
  });

  it('keeps its chart with the saved query', async () => {
    const { opened, page } = await open('SELECT i % 5 AS n, i AS v FROM range(20) t(i)');
    await show(page, 'Chart');
    await page.getByRole('combobox', { name: 'Kind of chart' }).click();
    await page.getByRole('option', { name: 'Area' }).click();
    await page.getByRole('button', { name: 'Save the query' }).click();
    await page.getByRole('textbox', { name: 'Name' }).fill('drawn');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByText('drawn created').waitFor();
    const saved = (await server.get('/api/v2/saved_queries/drawn')).is(200);
    assert.equal(saved.at('chart', 'kind'), 'area');
    await opened.close();
  });

  it('shows nulls, distinct values, range and histogram of each column', async () => {
    const { opened, page } = await open(
      "SELECT i AS id, CASE WHEN i % 4 = 0 THEN NULL ELSE 'c' || (i % 3) END AS class, sqrt(i) AS root, TIMESTAMP '2026-01-01' + i * INTERVAL 1 HOUR AS at FROM range(1000) t(i)",
    );
    await show(page, 'Columns');
    const card = (name: string) =>
      page.getByRole('list', { name: 'Columns' }).locator('> li').filter({ hasText: name }).first();
    await card('class').getByText('250 (25.0 %)').waitFor();
    await card('id').getByText('999', { exact: true }).waitFor();
    await page.getByRole('img', { name: 'Histogram of root' }).waitFor();
    await opened.checkAccessibility();
    await opened.photograph('columns');
    await opened.close();
  });

  it('shows the profile as a tree with times and rows', async () => {
    const { opened, page } = await open('SELECT i % 10 AS g, count(*) FROM range(100000) t(i) GROUP BY g ORDER BY g');
    await show(page, 'Profile');
    await page.getByRole('button', { name: 'Profile the statement' }).click();
    await page.getByRole('rowheader', { name: /range/ }).waitFor();
    await opened.checkAccessibility();
    await opened.photograph('profile');
    await opened.close();
  });

  it('is found again in the history, compared, and opened in the editor', async () => {
    const { opened, page } = await open("SELECT 'needle' AS found");
    await page.getByRole('link', { name: 'History' }).click();
    await page.getByRole('searchbox', { name: 'Search statements' }).fill('needle');
    await page
      .getByRole('row', { name: /needle/ })
      .first()
      .click();
    const detail = page.getByRole('complementary', { name: 'Statement' });
    await detail.getByText('In the engine').waitFor();
    await opened.checkAccessibility();
    await opened.photograph('history');
    await detail.getByRole('button', { name: 'Open in the editor' }).click();
    await page.getByRole('textbox', { name: 'SQL' }).getByText("SELECT 'needle' AS found").waitFor();
    await opened.close();
  });
});
