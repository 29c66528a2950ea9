// The frame of the console in a browser: signing in, expired sign-ins, themes, the rail on a phone, and the SQL room with a result.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Browser } from 'playwright-core';
import { eventually } from '../deadline.ts';
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
    const consolePage = await ConsolePage.open(browser, server, { token: null });
    const { page } = consolePage;
    await consolePage.checkAccessibility();
    await consolePage.photograph('sign_in_light');
    await page.getByLabel('Access token').fill('tbl_pat_wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('This token is not valid').waitFor();
    await consolePage.signIn(server.token);
    assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes('tbl_')), false);
    await consolePage.close([unauthorized]);
  });

  it('signs in by user and password with a token that signing out revokes', async () => {
    (await server.post('/api/v2/users', { name: 'ann', password: 'correct horse battery' })).is(201);
    const consolePage = await ConsolePage.open(browser, server, { token: null });
    const { page } = consolePage;
    await page.getByRole('tab', { name: 'User and password' }).click();
    await page.getByLabel('User', { exact: true }).fill('ann');
    await page.getByRole('textbox', { name: 'Password' }).fill('correct horse battery');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('button', { name: 'Signed in as ann' }).click();
    const tokens = async () => (await server.get('/api/v2/users/ann/tokens')).is(200).at<unknown[]>('tokens').length;
    assert.equal(await tokens(), 1);
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.getByText('You are signed out.').waitFor();
    await eventually('the token is revoked', async () => (await tokens()) === 0);
    await consolePage.close();
  });

  it('returns to the page and its text after the sign-in has expired', async () => {
    const created = (await server.post('/api/v2/users/root/tokens', { name: 'short' })).is(201);
    const consolePage = await ConsolePage.open(browser, server, { path: 'sql', token: created.at('secret') });
    const { page } = consolePage;
    await page.getByRole('textbox', { name: 'SQL' }).fill('SELECT 40 + 2 AS answer');
    (await server.delete('/api/v2/users/root/tokens/short')).is(200);
    await consolePage.clickUntilExpired(page.getByRole('button', { name: 'Run', exact: true }));
    await consolePage.signIn(server.token);
    await page.getByText('SELECT 40 + 2 AS answer').waitFor();
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('gridcell', { name: '42' }).waitFor();
    await consolePage.close([unauthorized]);
  });

  for (const [theme, colorScheme] of [
    ['light', 'light'],
    ['dark', 'dark'],
  ] as const)
    it(`shows the SQL room in ${theme} without violations of accessibility rules`, async () => {
      const consolePage = await ConsolePage.open(browser, server, { path: 'sql', colorScheme });
      const { page } = consolePage;
      await page.getByRole('treeitem', { name: 'default' }).click();
      await page.getByRole('treeitem', { name: /^shop/ }).click();
      await page.getByRole('treeitem', { name: /^orders/ }).waitFor();
      await page.getByRole('textbox', { name: 'SQL' }).fill('SELECT * FROM shop.orders ORDER BY id; -- all orders');
      await page.keyboard.press('Control+Enter');
      await page.getByRole('gridcell', { name: 'customer 3' }).first().waitFor();
      await consolePage.checkAccessibility();
      await consolePage.photograph(`sql_${theme}`);
      await consolePage.close();
    });

  it('leads everywhere by the command palette, with the keyboard only', async () => {
    (await server.post('/api/v2/saved_queries', { name: 'order_count', sql: 'SELECT count(*) FROM shop.orders' })).is(
      201,
    );
    const consolePage = await ConsolePage.open(browser, server);
    const { page } = consolePage;
    const field = page.getByRole('combobox', { name: 'Go to or run' });
    const choose = async (text: string, option: string | RegExp) => {
      await page.keyboard.press('Control+k');
      await field.waitFor();
      await page.keyboard.type(text);
      await page.getByRole('option', { name: option, selected: true }).waitFor();
      await page.keyboard.press('Enter');
      await field.waitFor({ state: 'detached' });
    };
    await choose('warehouses', 'Warehouses');
    await page.waitForURL('**/console/warehouses');
    await choose('new query', 'New query');
    const text = page.getByRole('textbox', { name: 'SQL' });
    await text.waitFor();
    await text.fill('select 40 + 2 as answer');
    await choose('format', /^Format the text/);
    await text.getByText('SELECT').waitFor();
    await choose('run', /^Run the statement/);
    await page.getByRole('gridcell', { name: '42' }).waitFor();
    await choose('dark', 'Theme: dark');
    assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark');
    await page.keyboard.press('Control+k');
    await page.keyboard.type('order');
    await page.getByRole('option', { name: /^order_count/ }).waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('palette_dark');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await text.getByText('count').waitFor();
    await choose('shop', /^shop/);
    await page.waitForURL('**/console/catalog/default/shop');
    await choose('light', 'Theme: light');
    await page.keyboard.press('Control+k');
    await consolePage.checkAccessibility();
    await consolePage.photograph('palette_light');
    await page.keyboard.press('Escape');
    await field.waitFor({ state: 'detached' });
    await consolePage.close();
  });

  it('fits on a phone, with the rail at the bottom and the explorer in a drawer', async () => {
    const consolePage = await ConsolePage.open(browser, server, { ...phone, path: 'sql' });
    const { page } = consolePage;
    await page.getByRole('textbox', { name: 'SQL' }).fill('SELECT id, customer, price FROM shop.orders');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('gridcell', { name: 'customer 3' }).first().waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('sql_phone');
    const width = await page.evaluate<number>('document.documentElement.scrollWidth');
    assert.equal(width, 390, 'the page does not scroll sideways');
    await page.getByRole('button', { name: 'Show the catalog' }).click();
    await page.getByRole('treeitem', { name: 'default' }).waitFor();
    await consolePage.photograph('sql_phone_explorer');
    await page.getByRole('button', { name: 'Go to' }).click();
    await page.getByRole('option', { name: 'Tasks' }).waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('palette_phone');
    await consolePage.close();
  });

  it('has a title for each room and each object, and shows the active room in the bar of a phone', async () => {
    const consolePage = await ConsolePage.open(browser, server, { ...phone, path: 'access' });
    const { page } = consolePage;
    const titled = (title: string) => eventually(`the title is ${title}`, async () => (await page.title()) === title);
    await titled('Access · Tabularium');
    const active = page.getByRole('navigation', { name: 'Rooms' }).locator('[aria-current=page]');
    const { x, width } = (await active.boundingBox()) ?? { x: 0, width: 0 };
    assert.ok(width > 0 && x >= 0 && x + width <= 390 - 64, `the room Access begins at ${x}`);
    await page.goto(`${server.url}/console/catalog/default/shop/orders`);
    await titled('orders · Catalog · Tabularium');
    await page.goto(`${server.url}/console/catalog`);
    await titled('Catalog · Tabularium');
    await page.goto(`${server.url}/console/sql?sql=SELECT%201`);
    await eventually('the title names the tab', async () => /^Query \d+ · SQL · Tabularium$/.test(await page.title()));
    await page.goto(`${server.url}/console/start`);
    await titled('Start · Tabularium');
    const curl = await page.getByRole('region', { name: 'curl' }).boundingBox();
    const copy = await page.getByRole('button', { name: 'Copy curl' }).boundingBox();
    assert.ok(curl && copy && curl.x + curl.width <= copy.x, 'the button is beside the text');
    await page.getByRole('button', { name: 'Copy curl' }).scrollIntoViewIfNeeded();
    await consolePage.photograph('start_phone_connect');
    await consolePage.checkAccessibility();
    await consolePage.close();
  });

  for (const [form, options] of [
    ['light', { colorScheme: 'light' }],
    ['dark', { colorScheme: 'dark' }],
    ['phone', phone],
  ] as const)
    it(`has documentation that can be read without signing in: ${form}`, async () => {
      const consolePage = await ConsolePage.open(browser, server, { ...options, path: 'docs/', token: null });
      const { page } = consolePage;
      for (const path of ['', 'tour', 'reference/uploads', 'codes/SQL_INVALID']) {
        await page.goto(`${server.url}/console/docs/${path}`);
        await page.getByRole('button', { name: / theme$/ }).waitFor();
        await consolePage.checkAccessibility();
        const sideways = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
        assert.equal(sideways, 0, `${path} scrolls sideways`);
        await consolePage.photograph(`docs_${path === '' ? 'introduction' : path.replace(/.*\//, '')}_${form}`);
      }
      await consolePage.close();
    });

  it('finds a page of the documentation by the words of its title or of a heading', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'sql' });
    const frame = consolePage.page;
    const [page] = await Promise.all([
      frame.context().waitForEvent('page'),
      frame.getByRole('link', { name: 'Docs' }).click(),
    ]);
    await page.getByRole('searchbox').waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('copy definition');
    const results = page.getByRole('list', { name: 'Search results' });
    await results.getByRole('link', { name: /tables\.copy_definition/ }).waitFor();
    await page.getByRole('searchbox').fill('quarantined');
    await results.getByRole('link', { name: /^STATEMENT_QUARANTINED/ }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'STATEMENT_QUARANTINED', level: 1 }).waitFor();
    await page.getByRole('link', { name: 'databases.query', exact: true }).click();
    await page.waitForURL(/reference\/databases#databasesquery$/);
    await page.getByRole('button', { name: 'Dark theme' }).click();
    assert.equal(await page.evaluate('document.documentElement.dataset.theme'), 'dark');
    await consolePage.close();
  });

  it('links the code of a failure to its page', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'sql' });
    const { page } = consolePage;
    await page.getByRole('textbox', { name: 'SQL' }).fill('SELECT missing FROM shop.orders');
    await page.keyboard.press('Control+Enter');
    const link = page.getByRole('alert').getByRole('link', { name: 'SQL_INVALID' });
    const [opening] = await Promise.all([page.context().waitForEvent('page'), link.click()]);
    await opening.getByRole('heading', { name: 'SQL_INVALID', level: 1 }).waitFor();
    await consolePage.close([/status of 400/]);
  });
});
