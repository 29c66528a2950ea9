// The SQL room in a browser: completion, parameters, errors at their place, cancelling, the grid with its filter, order, copies and
// downloads; and that no text is lost by reloading, closing a tab, or a change elsewhere.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Browser, Locator, Page } from 'playwright-core';
import { eventually } from '../deadline.ts';
import { start, type TestServer } from '../server.ts';
import { ConsolePage, launchBrowser, noBrowser } from './browser.ts';

describe('the SQL room', { skip: noBrowser }, () => {
  let server: TestServer;
  let browser: Browser;
  before(async () => {
    [server, browser] = await Promise.all([start(), launchBrowser()]);
    (await server.post('/api/v2/databases', { name: 'shop' })).is(201);
    const columns = [
      { name: 'id', type: 'BIGINT' },
      { name: 'customer', type: 'STRING' },
      { name: 'price', type: 'DECIMAL(18,2)' },
    ];
    (await server.post('/api/v2/databases/shop/tables', { name: 'orders', columns })).is(201);
    const hostileName = '<img src=x onerror=alert(1)>';
    (await server.post('/api/v2/databases/shop/tables', { name: hostileName, columns })).is(201);
    const insert =
      "INSERT INTO orders SELECT i, CASE WHEN i % 5 = 0 THEN NULL ELSE 'customer ' || (i % 7) END, i * 1.25 FROM range(300) t(i)";
    (await server.query('shop', insert)).is(200);
  });
  after(() => Promise.all([browser?.close(), server?.close()]));
  beforeEach(async () => {
    const drafts = (await server.get('/api/v2/drafts')).is(200).at<{ uri: string }[]>('drafts');
    for (const { uri } of drafts) (await server.delete(uri)).is(200);
  });

  const open = async (options: Parameters<typeof ConsolePage.open>[2] = {}) => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'sql', ...options });
    return { consolePage, page: consolePage.page };
  };
  const text = (page: Page) => page.getByRole('textbox', { name: 'SQL' });
  const run = (page: Page) => page.keyboard.press('Control+Enter');
  const cell = (page: Page, name: string) => page.getByRole('gridcell', { name, exact: true }).first();
  const middleOf = async (locator: Locator, offset: number): Promise<[number, number]> => {
    const { x, y, width, height } = (await locator.boundingBox()) as {
      x: number;
      y: number;
      width: number;
      height: number;
    };
    return [x + width / 3 + offset, y + height / 2];
  };
  const drafts = async () =>
    (await server.get('/api/v2/drafts'))
      .is(200)
      .at<{ sql: string; properties: Record<string, string>; draftId: string }[]>('drafts');

  it('completes columns by the alias of their table, and tables after FROM', async () => {
    const { consolePage, page } = await open();
    await text(page).fill('SELECT  FROM shop.orders AS o');
    await page.keyboard.press('Home');
    for (let i = 0; i < 'SELECT '.length; i++) await page.keyboard.press('ArrowRight');
    await page.keyboard.type('o.cus');
    await page.getByRole('option', { name: /customer/ }).click();
    await page.keyboard.type(', o.price');
    await page.keyboard.press('Escape');
    await page.keyboard.press('End');
    await page.keyboard.type(' ORDER BY o.id LIMIT 2');
    await page.keyboard.press('Escape');
    await run(page);
    await cell(page, '1.25').waitFor();
    await consolePage.close();
  });

  it('runs the statement under the cursor, with parameters', async () => {
    const { consolePage, page } = await open();
    await text(page).fill("SELECT 'first' AS a;\nSELECT $1 + 1 AS b, $2 AS c; SELECT 'third' AS d");
    await page.getByRole('group', { name: 'Parameters' }).getByRole('textbox').first().fill('41');
    await page.getByRole('group', { name: 'Parameters' }).getByRole('textbox').last().fill('"7"');
    await text(page).click({ position: { x: 40, y: 30 } });
    await page.keyboard.press('Control+End');
    await page.keyboard.press('Home');
    await run(page);
    await cell(page, '42').waitFor();
    await cell(page, '7').waitFor();
    await consolePage.close();
  });

  it('marks an error at its line and column, and says what to do', async () => {
    const { consolePage, page } = await open();
    await text(page).fill('SELECT 1;\n\nSELECT id,\n  no_such_column\nFROM shop.orders');
    await page.keyboard.press('Control+End');
    await run(page);
    await page.getByRole('alert').getByText('SQL_INVALID').waitFor();
    const marked = page.locator('.cm-lintRange-error');
    assert.equal(await marked.textContent(), 'no_such_column');
    await consolePage.checkAccessibility();
    await consolePage.photograph('sql_error');
    await consolePage.close([/status of 400/]);
  });

  it('shows line numbers at the height of their lines when a page with a text is opened', async () => {
    const { consolePage, page } = await open();
    // The editor measures its lines once, in its first frame: a style that still changes then leaves the numbers beside them.
    await page.addInitScript(`globalThis.changing = [];
      addEventListener('transitionrun', ({ target, propertyName }) => {
        if (target instanceof Element && target.closest('.cm-editor')) changing.push(propertyName);
      }, { capture: true });`);
    await page.goto(
      `${server.url}/console/sql?${new URLSearchParams({ sql: 'SELECT 1,\n  2,\n  3,\n  4 AS last_line' })}`,
    );
    await text(page).getByText('last_line').waitFor();
    await page.evaluate(
      'new Promise((resolve) => { let frames = 10; const next = () => (frames-- > 0 ? requestAnimationFrame(next) : resolve()); next(); })',
    );
    const tops = async (selector: string) =>
      Promise.all((await page.locator(selector).all()).map(async (element) => (await element.boundingBox())?.y));
    // The first of the gutter is an invisible one, which makes it as wide as its widest number.
    const [, ...numbers] = await tops('.cm-lineNumbers .cm-gutterElement');
    assert.equal(numbers.length, 4);
    assert.deepEqual(numbers, await tops('.cm-line'));
    assert.deepEqual(await page.evaluate('changing'), []);
    await consolePage.close();
  });

  it('shows the plan of the statement under the cursor while the pointer rests on the run button', async () => {
    const { consolePage, page } = await open();
    await text(page).fill('SELECT customer, sum(price) FROM shop.orders GROUP BY customer');
    const explained = page.waitForRequest(/\/explain$/);
    await page.getByRole('button', { name: /^Run/ }).hover();
    const plan = page.getByRole('region', { name: 'plan' });
    await plan.getByText('GROUP_BY').waitFor();
    assert.match((await explained).postData() ?? '', /sum\(price\)/);
    await consolePage.checkAccessibility();
    await consolePage.photograph('sql_plan');
    // Nothing was run.
    const ran = (await server.post('/api/v2/queries/search', { text: 'sum(price)' })).is(200);
    assert.equal(ran.at<unknown[]>('queries').length, 0);
    await page.mouse.move(600, 600);
    await plan.waitFor({ state: 'detached' });
    await text(page).fill('SELECT nothing FROM nowhere');
    await page.getByRole('button', { name: /^Run/ }).hover();
    await page
      .getByText(/nowhere/)
      .last()
      .waitFor();
    await consolePage.close([/status of 4/]);
  });

  it('cancels a statement, and shows how long it has run', async () => {
    const { consolePage, page } = await open();
    await text(page).fill('SELECT count(*) FROM range(3000000) a(x), range(3000000) b(y) WHERE x + y < 0');
    await run(page);
    await page.getByText('Running').waitFor();
    await consolePage.photograph('sql_running');
    await page.getByRole('main').getByRole('button', { name: 'Cancel' }).first().click();
    await page.getByRole('alert').getByText('Cancelled', { exact: true }).waitFor();
    await eventually('nothing runs any more', async () => {
      const running = (await server.post('/api/v2/queries/search', { state: 'running' })).is(200);
      return running.at<unknown[]>('queries').length === 0;
    });
    await consolePage.close();
  });

  it('shows no plan by itself after Cancel and beside an error, and shows it when the pointer comes anew', async () => {
    const { consolePage, page } = await open();
    const plan = page.getByRole('region', { name: 'plan' });
    const runButton = page.getByRole('button', { name: /^Run/ });
    // Chromium's own clock, so that the delay of the preview passes without waiting for it.
    await page.clock.install();
    let explained = 0;
    page.on('request', (request) => {
      if (request.url().endsWith('/explain')) explained++;
    });
    await text(page).fill('SELECT count(*) FROM range(3000000) a(x), range(3000000) b(y) WHERE x + y < 0');
    await run(page);
    const cancel = page.getByRole('main').getByRole('button', { name: 'Cancel' }).first();
    await cancel.hover();
    await cancel.click();
    await page.getByRole('alert').getByText('Cancelled', { exact: true }).waitFor();
    await runButton.waitFor();
    const rest = async () => {
      // The pointer trembles on the button.
      await page.mouse.move(...(await middleOf(runButton, 1)));
      await page.clock.runFor(5000);
      await page.mouse.move(...(await middleOf(runButton, 0)));
      await page.clock.runFor(5000);
    };
    await rest();
    assert.equal(explained, 0);
    await page.mouse.move(600, 600);
    await rest();
    await plan.waitFor();
    await page.mouse.move(600, 600);
    await page.clock.runFor(5000);
    await plan.waitFor({ state: 'detached' });
    await text(page).fill('SELECT nothing FROM nowhere');
    await run(page);
    await page.getByRole('alert').getByText('nowhere').first().waitFor();
    explained = 0;
    await rest();
    assert.equal(explained, 0);
    await text(page).fill('SELECT 1 AS corrected');
    await page.mouse.move(600, 600);
    await rest();
    await plan.waitFor();
    await consolePage.close([/status of 4/]);
  });

  it('says that there is nothing to run where the text is empty or only a comment', async () => {
    const { consolePage, page } = await open();
    await text(page).fill('');
    await page.getByRole('button', { name: /^Run/ }).click();
    await page.getByText('The editor is empty.').first().waitFor();
    await text(page).fill('-- later\n/* or never */');
    await run(page);
    await page.getByText('The text contains only comments.').first().waitFor();
    await text(page).fill('SELECT 1 -- one');
    await page.keyboard.press('Control+End');
    for (let i = 0; i < '-- one'.length; i++) await page.keyboard.press('Shift+ArrowLeft');
    await run(page);
    await page.getByText('The selection contains no statement.').first().waitFor();
    await consolePage.photograph('sql_nothing_to_run');
    await consolePage.close();
  });

  it('shows where a statement waits while the only slot of its warehouse is taken, and cancels it there', async () => {
    (await server.post('/api/v2/warehouses', { name: 'single', queriesMax: 1 })).is(201);
    (await server.post('/api/v2/catalogs', { name: 'lab', warehouse: 'single' })).is(201);
    const query = async (sql: string) =>
      (await server.post('/api/v2/catalogs/lab/query', { sql, waitSeconds: 0.2 })).is(202).at<string>('uri');
    const active = async (state: string) =>
      (await server.post('/api/v2/queries/search', { warehouse: 'single', state })).is(200).at<unknown[]>('queries');
    const blocking = await query(
      'SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range % 7 = b.range % 11',
    );
    await eventually('the slot is taken', async () => (await active('running')).length === 1);
    const ahead = await query("SELECT 'ahead'");
    await eventually('one waits', async () => (await active('queued')).length === 1);
    const { consolePage, page } = await open({
      path: `sql?${new URLSearchParams({ sql: 'SELECT 1 AS a', catalog: 'lab' })}`,
    });
    await text(page).filter({ hasText: 'SELECT 1 AS a' }).waitFor();
    await text(page).press('Control+Enter');
    const waitsAs = (position: number) =>
      page
        .getByRole('status')
        .filter({ hasText: new RegExp(`^Waiting in the queue, number ${position}$`) })
        .waitFor();
    await waitsAs(2);
    await consolePage.checkAccessibility();
    await consolePage.photograph('sql_waiting');
    (await server.post(`${ahead}/cancel`)).is(200);
    await waitsAs(1);
    await page.getByRole('main').getByRole('button', { name: 'Cancel' }).last().click();
    await page.getByRole('alert').getByText('Cancelled', { exact: true }).waitFor();
    await eventually('it waits no longer', async () => (await active('queued')).length === 0);
    await text(page).fill('SELECT 2 AS b');
    await text(page).press('Control+Enter');
    await waitsAs(1);
    (await server.post(`${blocking}/cancel`)).is(200);
    await cell(page, '2').waitFor();
    await consolePage.close();
  });

  it('shows the progress and the time left of a statement where the engine knows them', async () => {
    (
      await server.post('/api/v2/databases/shop/tables', {
        name: 'numbers',
        // The engine reports its progress after each of 163 row groups, and the statement takes a minute or more.
        asSelect: { sql: 'SELECT range AS n FROM range(20000000)' },
      })
    ).is(201);
    const { consolePage, page } = await open();
    const nested = Array.from({ length: 24 }).reduce<string>((inner) => `md5(${inner})`, 'n::VARCHAR');
    await text(page).fill(`SELECT max(${nested}) FROM shop.numbers`);
    await run(page);
    const main = page.getByRole('main');
    // From its second minute on, the time that it has taken has no tenths.
    const times = main.getByText(/^[\d.]+ (s|min \d+ s) · \d+ % · about .+ left/);
    await times.waitFor().catch(async (cause) => {
      throw new Error(`the page shows: ${await main.innerText()}`, { cause });
    });
    await consolePage.photograph('sql_progress');
    await main.getByRole('button', { name: 'Cancel' }).last().click();
    await page.getByRole('alert').getByText('Cancelled', { exact: true }).waitFor();
    await consolePage.close();
  });

  it('sorts and filters all rows, shows nulls as such, and copies and downloads the result', async () => {
    const { consolePage, page } = await open();
    await text(page).fill('SELECT * FROM shop.orders ORDER BY id');
    await run(page);
    await cell(page, 'NULL').waitFor();
    await page.getByRole('columnheader', { name: /price/ }).getByRole('button').click();
    await page.getByRole('columnheader', { name: /price/ }).getByRole('button').click();
    await cell(page, '373.75').waitFor();
    await page.getByRole('searchbox', { name: 'Filter rows' }).fill('customer 3');
    await page.getByText(/of 300/).waitFor();
    await consolePage.photograph('sql_filtered');
    await page.getByRole('button', { name: 'Copy', exact: true }).click();
    await page.getByRole('menuitem', { name: 'As CSV' }).click();
    await page.getByText(/rows copied/).waitFor();
    const clipboardText = await page.evaluate<string>('navigator.clipboard.readText()');
    const lines = clipboardText.trim().split('\n');
    assert.equal(lines[0], 'id,customer,price');
    assert.ok(lines.slice(1).every((line) => line.includes('customer 3')));
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download' }).click();
    await page.getByRole('menuitem', { name: 'CSV' }).click();
    const file = await readFile(await (await download).path(), 'utf8');
    assert.equal(file.trim().split('\n').length, 301);
    await consolePage.close();
  });

  it('advances the order of a column once for each click, however fast they follow', async () => {
    const { consolePage, page } = await open();
    await text(page).fill('SELECT i AS n FROM range(1000) t(i) ORDER BY hash(i)');
    await run(page);
    const header = page.getByRole('columnheader', { name: /^n/ });
    const inOrder = async (sort: string | null, first: string | undefined) => {
      await eventually(`the order is ${sort}`, async () => (await header.getAttribute('aria-sort')) === sort);
      if (first !== undefined) await page.locator('[id=cell-0-0]').filter({ hasText: first }).waitFor();
    };
    await inOrder(null, undefined);
    const asGiven = await page.locator('[id=cell-0-0]').innerText();
    await header.getByRole('button').dblclick();
    await inOrder('descending', '999');
    await header.getByRole('button').click();
    await inOrder(null, asGiven);
    await header.getByRole('button').click();
    await inOrder('ascending', '0');
    await header.getByRole('button').click({ clickCount: 3 });
    await inOrder('ascending', '0');
    await consolePage.close();
  });

  it('shows a cell in full, with JSON on several lines', async () => {
    const { consolePage, page } = await open();
    await text(page).fill("SELECT {'a': [1, 2], 'b': 'x'} AS nested, 12345678901234567890123::HUGEINT AS wide");
    await run(page);
    await cell(page, '12345678901234567890123').waitFor();
    await page.getByRole('gridcell').first().dblclick();
    const detail = page.getByRole('complementary', { name: 'Cell' });
    await detail.getByText('"b": "x"').waitFor();
    assert.match((await detail.locator('pre').textContent()) ?? '', /"a": \[\s+1,\s+2\s+\]/);
    await consolePage.checkAccessibility();
    await consolePage.close();
  });

  it('saves a text within a second of a pause, restores it on another machine, and reopens what was closed', async () => {
    const { consolePage, page } = await open();
    await text(page).fill('SELECT 1 AS kept');
    await eventually('the draft is on the server', async () => (await drafts())[0]?.sql === 'SELECT 1 AS kept');
    const other = await open();
    await other.page.getByText('SELECT 1 AS kept').waitFor();
    await other.consolePage.close();
    await page.getByRole('button', { name: /^Close Query/ }).click();
    await eventually('the draft is marked', async () => (await drafts())[0]?.properties.closedAt !== undefined);
    await page.getByRole('button', { name: 'Closed queries' }).click();
    await page.getByRole('menuitem', { name: /SELECT 1 AS kept/ }).click();
    await page.getByText('SELECT 1 AS kept').waitFor();
    await consolePage.close();
  });

  it('keeps a tab that was saved, and leaves one closed that was closed, while the drafts were read', async () => {
    const { consolePage, page } = await open();
    const written = (method: string) =>
      page.waitForResponse((response) => response.request().method() === method && /\/drafts\b/.test(response.url()));
    const isList = ({ pathname }: URL) => pathname === '/api/v2/drafts';
    /** Reads the list of drafts, and lets the page have it when `meanwhile` is done. */
    const whileListed = async (load: () => Promise<unknown>, meanwhile: () => Promise<unknown>) => {
      const [read, done] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      await page.route(isList, async (route) => {
        if (route.request().method() !== 'GET') return route.fallback();
        const response = await route.fetch();
        read.resolve();
        await done.promise;
        await route.fulfill({ response });
      });
      await load();
      await read.promise;
      await meanwhile();
      const listed = page.waitForResponse((response) => isList(new URL(response.url())));
      done.resolve();
      await (await listed).finished();
      await page.unroute(isList);
    };
    const sql = 'SELECT 1 AS while_listed';
    let saved: Promise<unknown> | undefined;
    await whileListed(
      async () => {
        saved = written('PUT');
        await page.goto(`${server.url}/console/sql?${new URLSearchParams({ sql })}`);
      },
      async () => saved,
    );
    await eventually('the list was followed', async () => (await page.getByText(sql).count()) === 1);
    assert.equal((await drafts()).length, 1);
    await whileListed(
      () => page.reload(),
      async () => {
        const marked = written('PATCH');
        await page.getByRole('button', { name: /^Close Query/ }).click();
        await marked;
      },
    );
    await page.getByRole('button', { name: 'Closed queries' }).click();
    await page.getByRole('menuitem', { name: new RegExp(sql) }).waitFor();
    await page.keyboard.press('Escape');
    assert.equal(await text(page).filter({ hasText: sql }).count(), 0);
    await consolePage.close();
  });

  it('saves what was just typed when the page is left, and keeps both texts where one changed elsewhere', async () => {
    const { consolePage, page } = await open();
    await text(page).fill('SELECT 1 AS here');
    await eventually('the draft is on the server', async () => (await drafts()).length === 1);
    const [draft] = await drafts();
    (await server.patch(`/api/v2/drafts/${draft?.draftId}`, { sql: 'SELECT 2 AS elsewhere' })).is(200);
    await text(page).fill('SELECT 3 AS here_too');
    await page.getByText('SELECT 3 AS here_too').waitFor();
    await eventually('both are on the server', async () => {
      const texts = (await drafts()).map(({ sql }) => sql);
      return texts.includes('SELECT 2 AS elsewhere') && texts.includes('SELECT 3 AS here_too');
    });
    await text(page).fill('SELECT 4 AS last_word');
    await page.goto('about:blank');
    await eventually('the last text is on the server', async () =>
      (await drafts()).some(({ sql }) => sql === 'SELECT 4 AS last_word'),
    );
    await consolePage.close([/status of 40/]);
  });

  it('saves a query with a name, and opens it by its link', async () => {
    const { consolePage, page } = await open();
    await text(page).fill('SELECT 6 * 7 AS answer');
    await page.keyboard.press('Control+s');
    await page.getByRole('textbox', { name: 'Name' }).fill('the_answer');
    await page.getByRole('textbox', { name: 'Folder' }).fill('demo');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByText('the_answer created').waitFor();
    await page.goto(`${server.url}/console/sql?query=the_answer`);
    await page.getByText('SELECT 6 * 7 AS answer').first().waitFor();
    await page.getByRole('tab', { name: 'Saved queries' }).click();
    await page.getByRole('treeitem', { name: /the_answer/ }).waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('sql_saved');
    // A page that is left saves its draft, perhaps while the same save is on its way: then the second one has an old version.
    await consolePage.close([/status of 400 .*\/api\/v2\/drafts\//]);
  });

  it('finds tables as one types, inserts their names, and shows hostile names as text', async () => {
    const { consolePage, page } = await open();
    await page.getByRole('searchbox', { name: 'Search tables and views' }).fill('img');
    await page.getByRole('treeitem', { name: /<img src=x/ }).click();
    await page.getByText('shop."<img src=x onerror=alert(1)>"').waitFor();
    await consolePage.photograph('sql_hostile');
    await consolePage.close();
  });
});
