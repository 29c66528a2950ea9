// The frame of the console in a browser: signing in, expired sign-ins, themes, the rail on a phone, and the SQL room with a result.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Browser } from 'playwright-core';
import { start, type TestServer } from '../server.ts';
import { ConsolePage, launchBrowser, noBrowser, phone } from './browser.ts';

const unauthorized = /status of 401/;

describe('the console', { skip: noBrowser }, () => {
  let server: TestServer;
  let browser: Browser;
  before(async () => {
    [server, browser] = await Promise.all([start(), launchBrowser()]);
    (await server.post('/api/v2/databases', { name: 'shop' })).is(201);
    (
      await server.post('/api/v2/databases/shop/tables', {
        name: 'orders',
        comment: 'All orders',
        columns: [
          { name: 'id', type: 'BIGINT', nullable: false },
          { name: 'customer', type: 'STRING' },
          { name: 'price', type: 'DECIMAL(18,2)' },
          { name: 'placed_at', type: 'DATETIME' },
          { name: 'details', type: 'JSON' },
        ],
        primaryKey: ['id'],
      })
    ).is(201);
    const insert =
      "INSERT INTO orders SELECT i, 'customer ' || (i % 7), i * 1.25, TIMESTAMP '2026-01-01' + i * INTERVAL 1 HOUR, '{\"n\": ' || i || '}' FROM range(500) t(i)";
    (await server.query('shop', insert)).is(200);
  });
  after(() => Promise.all([browser?.close(), server?.close()]));

  it('refuses a wrong token and accepts a right one, and keeps it out of local storage', async () => {
    const opened = await ConsolePage.open(browser, server, { token: null });
    const { page } = opened;
    await opened.checkAccessibility();
    await opened.photograph('sign_in_light');
    await page.getByLabel('Access token').fill('tbl_pat_wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('This token is not valid').waitFor();
    await opened.signIn(server.token);
    assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes('tbl_')), false);
    await opened.close([unauthorized]);
  });

  it('signs in by user and password with a token that signing out revokes', async () => {
    (await server.post('/api/v2/users', { name: 'ann', password: 'correct horse battery' })).is(201);
    const opened = await ConsolePage.open(browser, server, { token: null });
    const { page } = opened;
    await page.getByRole('tab', { name: 'User and password' }).click();
    await page.getByLabel('User', { exact: true }).fill('ann');
    await page.getByRole('textbox', { name: 'Password' }).fill('correct horse battery');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('button', { name: 'Signed in as ann' }).click();
    const tokens = async () => (await server.get('/api/v2/users/ann/tokens')).is(200).at<unknown[]>('tokens').length;
    assert.equal(await tokens(), 1);
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.getByText('You are signed out.').waitFor();
    assert.equal(await tokens(), 0);
    await opened.close();
  });

  it('returns to the page and its text after the sign-in has expired', async () => {
    const created = (await server.post('/api/v2/users/root/tokens', { name: 'short' })).is(201);
    const opened = await ConsolePage.open(browser, server, { path: 'sql', token: created.at('secret') });
    const { page } = opened;
    await page.getByRole('textbox', { name: 'SQL' }).fill('SELECT 40 + 2 AS answer');
    (await server.delete('/api/v2/users/root/tokens/short')).is(200);
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText('Your sign-in has expired').waitFor();
    await opened.signIn(server.token);
    await page.getByText('SELECT 40 + 2 AS answer').waitFor();
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('gridcell', { name: '42' }).waitFor();
    await opened.close([unauthorized]);
  });

  for (const [theme, colorScheme] of [
    ['light', 'light'],
    ['dark', 'dark'],
  ] as const)
    it(`shows the SQL room in ${theme} without violations of accessibility rules`, async () => {
      const opened = await ConsolePage.open(browser, server, { path: 'sql', colorScheme });
      const { page } = opened;
      await page.getByRole('treeitem', { name: 'default' }).click();
      await page.getByRole('treeitem', { name: /^shop/ }).click();
      await page.getByRole('treeitem', { name: /^orders/ }).waitFor();
      await page.getByRole('textbox', { name: 'SQL' }).fill('SELECT * FROM shop.orders ORDER BY id; -- all orders');
      await page.keyboard.press('Control+Enter');
      await page.getByRole('gridcell', { name: 'customer 3' }).first().waitFor();
      await opened.checkAccessibility();
      await opened.photograph(`sql_${theme}`);
      await opened.close();
    });

  it('fits on a phone, with the rail at the bottom and the explorer in a drawer', async () => {
    const opened = await ConsolePage.open(browser, server, { ...phone, path: 'sql' });
    const { page } = opened;
    await page.getByRole('textbox', { name: 'SQL' }).fill('SELECT id, customer, price FROM shop.orders');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('gridcell', { name: 'customer 3' }).first().waitFor();
    await opened.checkAccessibility();
    await opened.photograph('sql_phone');
    const width = await page.evaluate<number>('document.documentElement.scrollWidth');
    assert.equal(width, 390, 'the page does not scroll sideways');
    await page.getByRole('button', { name: 'Show the catalog' }).click();
    await page.getByRole('treeitem', { name: 'default' }).waitFor();
    await opened.photograph('sql_phone_explorer');
    await opened.close();
  });
});
