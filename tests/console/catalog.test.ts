// The catalog in a browser: pages of objects restored from their addresses, forms with the call behind them, hostile names, and a user
// who may read one table only.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import type { Browser } from 'playwright-core';
import { newPerson } from '../access/people.ts';
import { start, type TestServer, uri } from '../server.ts';
import { ConsolePage, launchBrowser, noBrowser, phone } from './browser.ts';

const hostileName = `<img src=x onerror="document.title='owned'">`;
const refused = /status of (400|403|404)/;

describe('the catalog', { skip: noBrowser }, () => {
  let server: TestServer;
  let browser: Browser;
  before(async () => {
    [server, browser] = await Promise.all([start(), launchBrowser()]);
    (await server.post('/api/v2/databases', { name: 'shop', comment: 'Orders and customers' })).is(201);
    const columns = [
      { name: 'id', type: 'BIGINT', nullable: false, comment: 'Counts up' },
      { name: 'total', type: 'DECIMAL(18,2)', defaultValue: 0 },
      { name: 'tags', type: 'ARRAY<STRING>' },
      { name: 'placed_at', type: 'DATETIME' },
    ];
    for (const name of ['orders', 'old_orders'])
      (
        await server.post('/api/v2/databases/shop/tables', {
          name,
          comment: 'All orders of the shop',
          properties: { team: 'sales' },
          columns,
          primaryKey: ['id'],
        })
      ).is(201);
    const rows = "SELECT i, i * 1.5, ['new'], TIMESTAMP '2026-01-01' + i * INTERVAL 1 HOUR FROM range(300) t(i)";
    (await server.query('shop', `INSERT INTO orders ${rows}`)).is(200);
    const view = { name: 'big_orders', sql: 'SELECT id, total FROM orders WHERE total > 100' };
    (await server.post('/api/v2/databases/shop/views', view)).is(201);
    (
      await server.post('/api/v2/databases/shop/tables', {
        name: hostileName,
        comment: hostileName,
        columns: [{ name: hostileName, type: 'STRING' }],
      })
    ).is(201);
  });
  after(() => Promise.all([browser?.close(), server?.close()]));

  for (const colorScheme of ['light', 'dark'] as const)
    it(`shows a table at its address in ${colorScheme}`, async () => {
      const consolePage = await ConsolePage.open(browser, server, { path: 'catalog/default/shop/orders', colorScheme });
      const { page } = consolePage;
      await page.getByRole('heading', { name: 'orders' }).waitFor();
      await page.getByRole('cell', { name: 'DECIMAL(18,2)' }).waitFor();
      await consolePage.checkAccessibility();
      await consolePage.photograph(`catalog_table_${colorScheme}`);
      const expected = {
        'Sample rows': page.getByRole('gridcell', { name: '2026-01-01' }).first(),
        Overview: page.getByText('sales'),
        DDL: page.getByText('CREATE TABLE orders'),
        Storage: page.getByRole('region', { name: /^Replicas of tablet/ }),
        Dependents: page.getByRole('link', { name: 'default.shop.big_orders' }),
        Grants: page.getByText('No grants that you may see'),
        History: page.getByRole('cell', { name: 'tables.create' }),
      };
      for (const [name, cellTexts] of Object.entries(expected)) {
        await page.getByRole('tab', { name, exact: true }).click();
        await cellTexts.waitFor();
        await consolePage.checkAccessibility();
        await consolePage.photograph(`catalog_${name.toLowerCase().replace(' ', '_')}_${colorScheme}`);
      }
      await page.reload();
      await expected.History.waitFor();
      await consolePage.close();
    });

  it('changes columns, and shows the call that does it', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'catalog/default/shop/orders' });
    const { page } = consolePage;
    await page.getByRole('button', { name: 'Add column' }).click();
    await page.getByLabel('Name', { exact: true }).fill("it's");
    await page.getByLabel('Type', { exact: true }).fill('VARCHAR(20)');
    const code = page.getByRole('region', { name: 'equivalent call' });
    const command = (await code.textContent()) ?? '';
    await page.getByRole('radio', { name: 'TypeScript' }).check();
    assert.match(
      (await code.textContent()) ?? '',
      /^await client.catalogs\("default"\).databases\("shop"\).tables\("orders"\).columns.create\(/,
    );
    await consolePage.checkAccessibility();
    await consolePage.photograph('catalog_add_column');
    // The command that is shown does what the form does.
    const env = { ...process.env, TOKEN: server.token };
    const { stdout } = await promisify(execFile)('bash', ['-c', `${command} -s`], { env });
    assert.equal(JSON.parse(stdout).code, '0');
    await page.getByRole('dialog').getByRole('button', { name: 'Add column' }).click();
    await page.getByText('OBJECT_ALREADY_EXISTS').waitFor();
    await consolePage.photograph('catalog_add_column_failed');
    await page.getByLabel('Name', { exact: true }).fill('note');
    await page.getByRole('dialog').getByRole('button', { name: 'Add column' }).click();
    await page.getByRole('cell', { name: 'note', exact: true }).waitFor();
    const chooseAction = async (action: string) => {
      await page.getByRole('button', { name: 'Actions for note' }).click();
      await page.getByRole('menuitem', { name: action }).click();
    };
    await chooseAction('Edit…');
    await page.getByLabel('Comment').fill('Free text');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('cell', { name: 'Free text' }).waitFor();
    await chooseAction('Drop…');
    await page.getByText('This cannot be undone').waitFor();
    await page.getByRole('button', { name: 'Drop column' }).click();
    await page.getByRole('cell', { name: 'note', exact: true }).waitFor({ state: 'detached' });
    await consolePage.close([refused]);
  });

  it('creates, renames, clones, drops and brings back', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'catalog/default/shop' });
    const { page } = consolePage;
    await page.getByRole('cell', { name: 'old_orders' }).waitFor();
    await consolePage.photograph('catalog_database');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('menuitem', { name: 'Table…' }).click();
    await page.getByLabel('Name', { exact: true }).fill('parts');
    await page.getByLabel('Name of column 1').fill('id');
    await page.getByRole('checkbox', { name: 'Key' }).check();
    await consolePage.checkAccessibility();
    await consolePage.photograph('catalog_create_table');
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
    await page.getByRole('heading', { name: 'parts', exact: true }).waitFor();
    const chooseAction = async (action: string) => {
      await page.getByRole('button', { name: 'More actions' }).click();
      await page.getByRole('menuitem', { name: action }).click();
    };
    await chooseAction('Rename…');
    await page.getByLabel('New name').fill('pieces');
    await page.getByRole('button', { name: 'Rename' }).click();
    await page.getByRole('heading', { name: 'pieces', exact: true }).waitFor();
    await chooseAction('Clone…');
    await page.getByLabel('Name of the copy').fill('pieces_2');
    await page.getByRole('dialog').getByRole('button', { name: 'Clone' }).click();
    await page.getByRole('heading', { name: 'pieces_2', exact: true }).waitFor();
    await chooseAction('Drop…');
    await page.getByText('its definition and all its rows').waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('catalog_drop');
    await page.getByRole('button', { name: 'Drop table' }).click();
    await page.getByRole('heading', { name: 'shop', exact: true }).waitFor();
    await page.getByRole('button', { name: 'Undrop' }).click();
    await page.getByRole('cell', { name: 'pieces_2' }).waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('catalog_undrop');
    await page.getByRole('dialog').getByRole('button', { name: 'Undrop' }).first().click();
    await page.getByRole('dialog').getByRole('button', { name: 'Undrop' }).click();
    await page.getByRole('heading', { name: 'pieces_2', exact: true }).waitFor();
    (await server.get('/api/v2/databases/shop/tables/pieces_2')).is(200);
    await consolePage.close();
  });

  it('shows hostile names as text, and generates DDL that creates the same table', async () => {
    const path = `catalog/default/shop/${encodeURIComponent(hostileName)}?tab=definition`;
    const consolePage = await ConsolePage.open(browser, server, { path });
    const { page } = consolePage;
    await page.getByRole('heading', { name: hostileName }).waitFor();
    await consolePage.photograph('catalog_hostile');
    assert.notEqual(await page.title(), 'owned');
    assert.equal(await page.locator('img').count(), 0);
    (await server.delete('/api/v2/databases/shop/views/big_orders?purge=true')).is(200);
    for (const table of [hostileName, 'orders']) {
      await page.goto(`${server.url}/console/catalog/default/shop/${encodeURIComponent(table)}?tab=definition`);
      const sql = await page.getByRole('region', { name: 'SQL', exact: true }).textContent();
      const before = (await server.get(uri`/databases/shop/tables/${table}`)).is(200);
      (await server.delete(uri`/databases/shop/tables/${table}?purge=true`)).is(200);
      const recreated = (await server.post('/api/v2/databases/shop/tables', { sql: sql?.replace(/;$/, '') })).is(201);
      const typesOf = (columns: readonly { name: string; type: string; nullable: boolean; defaultValue: unknown }[]) =>
        columns.map(({ name, type, nullable, defaultValue }) => ({ name, type, nullable, defaultValue }));
      assert.deepEqual(typesOf(recreated.at('columns')), typesOf(before.at('columns')));
      assert.deepEqual(recreated.at('primaryKey'), before.at('primaryKey'));
    }
    await consolePage.close();
  });

  it('shows a user only what he may read, on a phone too', async () => {
    const bob = await newPerson(server, 'bob', [['read', '/catalogs/default/databases/shop/tables/old_orders']]);
    const path = 'catalog/default/shop';
    const consolePage = await ConsolePage.open(browser, server, { ...phone, path, token: bob.token });
    const { page } = consolePage;
    await page.getByText('You may not read the database itself').waitFor();
    await page.getByRole('cell', { name: 'old_orders' }).waitFor();
    await page.goto(`${server.url}/console/catalog`);
    await page.getByRole('cell', { name: 'default' }).click();
    await page.getByText('You may not read the catalog itself').waitFor();
    await consolePage.photograph('catalog_path_phone');
    await page.getByRole('cell', { name: 'shop' }).click();
    await page.getByRole('cell', { name: 'old_orders' }).waitFor();
    assert.equal(await page.getByRole('cell', { name: 'orders', exact: true }).count(), 0);
    await consolePage.photograph('catalog_forbidden_phone');
    await consolePage.checkAccessibility();
    await page.getByRole('cell', { name: 'old_orders' }).click();
    await page.getByRole('cell', { name: 'DECIMAL(18,2)' }).waitFor();
    await consolePage.photograph('catalog_table_phone');
    await consolePage.checkAccessibility();
    assert.equal(await page.evaluate<number>('document.documentElement.scrollWidth'), 390);
    await consolePage.close([refused]);
  });

  it('shows the path to the only table that a user may read in the explorer, and nothing else', async () => {
    (await server.put('/api/v2/databases/secret')).is(201);
    const table = '/catalogs/default/databases/shop/tables/old_orders';
    const eve = await newPerson(server, 'eve', [['read', table]]);
    const consolePage = await ConsolePage.open(browser, server, { path: 'sql', token: eve.token, colorScheme: 'dark' });
    const { page } = consolePage;
    const nodes = () => page.getByRole('treeitem').allInnerTexts();
    await page.getByRole('treeitem', { name: 'default' }).click();
    await page.getByRole('treeitem', { name: 'shop' }).click();
    await page.getByRole('treeitem', { name: /old_orders/ }).waitFor();
    assert.deepEqual(
      (await nodes()).map((text) => text.split('\n')[0]?.trim()),
      ['default', 'shop', 'old_orders'],
    );
    await consolePage.checkAccessibility();
    await consolePage.photograph('explorer_one_table');
    await page
      .getByRole('searchbox')
      .or(page.getByPlaceholder(/search/i))
      .first()
      .fill('orders');
    await page.getByRole('treeitem', { name: /old_orders/ }).waitFor();
    assert.equal(await page.getByRole('treeitem', { name: /^orders/ }).count(), 0);
    (await server.delete('/api/v2/databases/secret')).is(200);
    await consolePage.close([refused]);
  });

  it('offers that path in the editor, too: in the select of databases and in completion', async () => {
    (await server.put('/api/v2/databases/secret')).is(201);
    const table = '/catalogs/default/databases/shop/tables/old_orders';
    const fay = await newPerson(server, 'fay', [['read', table]]);
    const consolePage = await ConsolePage.open(browser, server, { path: 'sql', token: fay.token });
    const { page } = consolePage;
    const text = page.getByRole('textbox', { name: 'SQL' });
    await text.click();
    await page.keyboard.type('SELECT * FROM s');
    await page.getByRole('option', { name: /^shop/ }).waitFor();
    assert.equal(await page.getByRole('option', { name: /^secret/ }).count(), 0);
    await page.keyboard.press('Escape');
    await page.getByRole('combobox', { name: 'Database' }).click();
    await page.getByRole('option', { name: 'shop', exact: true }).waitFor();
    assert.deepEqual(await page.getByRole('listbox').getByRole('option').allInnerTexts(), ['No database', 'shop']);
    await consolePage.photograph('place_of_one_table');
    await page.getByRole('option', { name: 'shop', exact: true }).click();
    // A list gives the focus back to its button after it has closed.
    await page.getByRole('listbox').waitFor({ state: 'detached' });
    await text.fill('SELECT 1 ');
    await text.press('End');
    await text.pressSequentially('FROM ol');
    await page.getByRole('option', { name: /^old_orders/ }).waitFor();
    (await server.delete('/api/v2/databases/secret')).is(200);
    await consolePage.close([refused]);
  });
});
