// Takes the pictures of docs/tour.md: the pages of a real server with the demo data, in Chromium, as WebP files in docs/images/.
// Run it (`npm run pictures`) after a change of what they show. The package has the pictures once, in the built documentation.
import { mkdirSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Page } from 'playwright-core';
import { ConsolePage, launchBrowser } from '../console/browser.ts';
import { start } from '../server.ts';

const directory = resolve(import.meta.dirname, '../../docs/images');
const quality = 82;

const revenue = `SELECT c.city, date_trunc('month', o.placed_at) AS month, sum(o.quantity * o.price) AS revenue
FROM demo.orders o JOIN demo.customers c ON o.customer_id = c.id
GROUP BY ALL
ORDER BY month, city`;
const byProduct = `SELECT date_trunc('month', placed_at) AS month,
  sum(quantity * price) FILTER (product = 'book') AS books,
  sum(quantity * price) FILTER (product = 'chair') AS chairs,
  sum(quantity * price) FILTER (product = 'lamp') AS lamps
FROM demo.orders GROUP BY ALL ORDER BY month`;
const pathOf = (sql: string) => `sql?${new URLSearchParams({ sql })}`;
const measurements = [
  'day,station,temperature,remark',
  ...Array.from(
    { length: 40 },
    (_, i) => `2026-02-${String((i % 28) + 1).padStart(2, '0')},S${i % 4},${(i * 0.7).toFixed(1)},`,
  ),
  '2026-03-01,S1,warm,no number',
].join('\n');

async function takePicture(page: Page, name: string): Promise<void> {
  // The caret of an editor blinks.
  await page.evaluate('document.activeElement?.blur()');
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality });
  writeFileSync(resolve(directory, `${name}.webp`), Buffer.from(data, 'base64'));
}

async function run(page: Page): Promise<void> {
  await page.getByRole('textbox', { name: 'SQL' }).filter({ hasText: 'SELECT ' }).waitFor();
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('gridcell').first().waitFor();
}

/** The pages in the order of the tour; each begins at its address. */
const pictures: Readonly<Record<string, { readonly path: string; readonly show: (page: Page) => Promise<unknown> }>> = {
  start: {
    path: 'start',
    show: async (page) => {
      await page.getByRole('button', { name: 'Create the demo data' }).click();
      await page.getByRole('region', { name: 'Revenue by city' }).waitFor();
      await page.reload();
      await page.getByText('running', { exact: true }).waitFor();
    },
  },
  sql: {
    path: pathOf(revenue),
    show: async (page) => {
      await page.getByRole('treeitem', { name: 'default' }).click();
      await page.getByRole('treeitem', { name: /^demo/ }).click();
      await page.getByRole('treeitem', { name: /^orders/ }).waitFor();
      await run(page);
    },
  },
  chart: {
    path: pathOf(byProduct),
    show: async (page) => {
      await run(page);
      await page.getByRole('group', { name: 'Show' }).getByRole('button', { name: 'Chart' }).click();
      await page
        .getByRole('img', { name: /chart of the result/ })
        .locator('canvas')
        .first()
        .waitFor();
    },
  },
  load: {
    path: 'load',
    show: async (page) => {
      const buffer = Buffer.from(`${measurements}\n`);
      await page.getByLabel('File to load').setInputFiles({ name: 'measurements.csv', mimeType: 'text/csv', buffer });
      await page.getByLabel('Type of temperature').fill('DECIMAL(5,1)');
      await page.getByLabel('Rows that may be rejected').fill('5');
    },
  },
  table: {
    path: 'catalog/default/demo/orders',
    show: (page) => page.getByRole('heading', { name: 'orders' }).waitFor(),
  },
  tasks: {
    path: 'tasks',
    show: (page) => page.getByText('Create table with rows').first().waitFor(),
  },
};

mkdirSync(directory, { recursive: true });
const [server, browser] = await Promise.all([start(), launchBrowser()]);
try {
  for (const [name, { path, show }] of Object.entries(pictures)) {
    const opened = await ConsolePage.open(browser, server, { path, colorScheme: 'light' });
    await show(opened.page);
    await opened.page.waitForLoadState('networkidle');
    await takePicture(opened.page, name);
    await opened.close();
  }
} finally {
  await Promise.all([browser.close(), server.close()]);
}
