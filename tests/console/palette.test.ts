// The command palette on a slow machine: keys that are pressed before the palette, the drafts or the found objects are there have the
// effect that they have on a fast one.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { start, type TestServer } from '../server.ts';
import { ConsolePage, launchBrowser, noBrowser } from './browser.ts';

describe('the command palette', { skip: noBrowser }, () => {
  let server: TestServer;
  let browser: Browser;
  before(async () => {
    [server, browser] = await Promise.all([start(), launchBrowser()]);
    (await server.post('/api/v2/databases', { name: 'shop' })).is(201);
    const columns = [{ name: 'id', type: 'BIGINT' }];
    for (const name of ['orders', 'order_lines', 'parcels'])
      (await server.post('/api/v2/databases/shop/tables', { name, columns })).is(201);
    (
      await server.post('/api/v2/drafts', {
        draftId: '00000000-0000-4000-8000-000000000001',
        name: 'Query 1',
        sql: 'SELECT 1 AS old_draft',
      })
    ).is(201);
  });
  after(() => Promise.all([browser?.close(), server?.close()]));

  /** Holds requests to matching addresses back until the returned function is called. */
  const holdBack = async (page: Page, pattern: RegExp) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    await page.route(pattern, async (route) => {
      await promise;
      await route.fallback();
    });
    return resolve;
  };

  it('takes the keys that follow Ctrl+K at once, and the text in the editor stays as it is', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'sql' });
    const { page } = consolePage;
    const text = page.getByRole('textbox', { name: 'SQL' });
    await text.getByText('old_draft').waitFor();
    await text.click();
    await page.keyboard.press('Control+k');
    await page.keyboard.type('warehouses');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/console/warehouses');
    await page.goBack();
    assert.equal(await text.innerText(), 'SELECT 1 AS old_draft');
    await consolePage.close();
  });

  it('opens a new query at once, which stays open when the drafts arrive', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'warehouses' });
    const { page } = consolePage;
    const release = await holdBack(page, /\/api\/v2\/drafts/);
    await page.keyboard.press('Control+k');
    await page.keyboard.type('new query');
    await page.keyboard.press('Enter');
    const text = page.getByRole('textbox', { name: 'SQL' });
    await text.fill('SELECT 40 + 2 AS answer');
    release();
    await page.getByRole('button', { name: 'Query 1', exact: true }).waitFor();
    assert.equal(await text.innerText(), 'SELECT 40 + 2 AS answer');
    await page.keyboard.press('Control+k');
    await page.keyboard.type('run');
    await page.keyboard.press('Enter');
    await page.getByRole('gridcell', { name: '42' }).waitFor();
    await consolePage.close();
  });

  it('opens what was entered as soon as it is found, and nothing of an earlier text', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'start' });
    const { page } = consolePage;
    await page.keyboard.press('Control+k');
    await page.keyboard.type('order');
    await page.getByRole('option', { name: /^orders/ }).waitFor();
    const release = await holdBack(page, /\/api\/v2\/.*search/);
    await page.getByRole('combobox', { name: 'Go to or run' }).fill('parc');
    await page.keyboard.press('Enter');
    release();
    await page.waitForURL('**/console/catalog/default/shop/parcels');
    await consolePage.close();
  });
});
