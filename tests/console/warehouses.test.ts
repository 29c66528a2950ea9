// The room of warehouses: statements of two users that run and are cancelled, usage over time, suspend and resume, forms, a released
// statement.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Browser } from 'playwright-core';
import { eventually } from '../deadline.ts';
import { start, type TestServer } from '../server.ts';
import { ConsolePage, launchBrowser, noBrowser, phone } from './browser.ts';

const endless = 'SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range % 7 = b.range % 11';
/** One call of a function that heeds no interrupt, for longer than a statement has in its warehouse. */
const killer = `SELECT length(regexp_replace(repeat('ab', 60000000 + range::INT), 'b', 'c', 'g')) FROM range(1)`;

const internalError = { code: 'INTERNAL_ERROR', message: 'an unexpected error occurred', result: {} };

describe('the room of warehouses', { skip: noBrowser }, () => {
  let server: TestServer;
  let browser: Browser;
  let annsToken: string;
  const submit = async (token: string, sql: string, catalog = 'default'): Promise<string> => {
    const path = `/api/v2/catalogs/${catalog}/databases/shop/query`;
    const headers = { authorization: `Bearer ${token}` };
    return (await server.request('POST', path, { headers, body: { sql, waitSeconds: 0 } })).is(202).at('taskId');
  };
  const addDatabase = async (catalog: string) =>
    (await server.post(`/api/v2/catalogs/${catalog}/databases`, { name: 'shop' })).is(201);

  before(async () => {
    [server, browser] = await Promise.all([
      start({ warehouseMemoryBytes: 1024 ** 3, logLevel: 'silent' }),
      launchBrowser(),
    ]);
    (await server.post('/api/v2/warehouses', { name: 'risky', statementTimeoutSeconds: 1 })).is(201);
    (await server.post('/api/v2/catalogs', { name: 'lab', warehouse: 'risky' })).is(201);
    await addDatabase('lab');
    await submit(server.token, killer, 'lab');
    await addDatabase('default');
    (await server.post('/api/v2/users', { name: 'ann' })).is(201);
    annsToken = (await server.post('/api/v2/users/ann/tokens', { name: 'console' })).is(201).at('secret');
    for (const [privilege, on] of [
      ['read', '/api/v2/databases/shop'],
      ['use', '/api/v2/warehouses/default'],
    ])
      (await server.post('/api/v2/users/ann/grants', { privilege, on })).is(201);
  });
  after(() => Promise.all([browser?.close(), server?.close()]));

  const activeStatements = async (warehouse: string): Promise<number> =>
    (await server.get(`/api/v2/warehouses/${warehouse}`)).is(200).at('runningQueries');

  it('shows running statements by principal, cancels them, and draws memory over time', async () => {
    await submit(server.token, endless);
    await submit(annsToken, endless);
    await eventually('both run', async () => (await activeStatements('default')) === 2);
    const consolePage = await ConsolePage.open(browser, server, { path: 'warehouses' });
    const { page } = consolePage;
    const statements = page.getByRole('region', { name: 'Statements' });
    await statements.getByRole('cell', { name: 'ann', exact: true }).waitFor();
    await page.getByText('The last').waitFor();
    await page.getByRole('img', { name: /^Memory and spill over time; now memory \d/ }).waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('warehouses_light');
    (await server.patch('/api/v2/warehouses/default', { queriesMax: 2 })).is(200);
    // The first runs, because ann has no other request; the others wait.
    const waiting = Array.from({ length: 3 }, () =>
      server.request('POST', '/api/v2/databases/shop/query', {
        headers: { authorization: `Bearer ${annsToken}` },
        body: { sql: endless, waitSeconds: 50 },
      }),
    );
    await statements.getByText('Queued, number 1').waitFor();
    await statements.getByText('Queued, number 2').waitFor();
    const positions = (await server.post('/api/v2/queries/search', { warehouse: 'default' }))
      .is(200)
      .at<{ state: string; queuePosition: number | null }[]>('queries')
      .map(({ state, queuePosition }) => `${state} ${queuePosition}`);
    assert.deepEqual(positions.sort(), ['queued 1', 'queued 2', 'running null', 'running null', 'running null']);
    await consolePage.photograph('warehouses_queued');
    await page.getByRole('button', { name: /^ann/ }).click();
    await page.getByRole('button', { name: 'Cancel all of ann' }).click();
    await statements.getByRole('cell', { name: 'ann', exact: true }).first().waitFor({ state: 'detached' });
    await statements.getByRole('button', { name: 'Cancel the statement of root' }).click();
    await page.getByText('No statement runs or waits here').waitFor();
    await eventually('none runs', async () => (await activeStatements('default')) === 0);
    for (const { code } of await Promise.all(waiting)) assert.equal(code, 'STATEMENT_CANCELLED');
    await consolePage.close();
  });

  it('suspends and resumes a warehouse, and changes its limits, in dark', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'warehouses/default', colorScheme: 'dark' });
    const { page } = consolePage;
    await page.getByRole('button', { name: 'Suspend' }).click();
    await page.getByRole('button', { name: 'Suspend warehouse' }).click();
    await page.getByRole('button', { name: 'Resume' }).waitFor();
    await consolePage.photograph('warehouses_suspended');
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByRole('button', { name: 'Suspend' }).waitFor();
    await page.getByRole('button', { name: 'Change' }).click();
    const form = page.getByRole('dialog', { name: 'Change default' });
    await form.getByLabel('Statements at a time').fill('7');
    await consolePage.checkAccessibility();
    await consolePage.photograph('warehouse_form_dark');
    await form.getByRole('button', { name: 'Save' }).click();
    await page.getByText('of 7 statements').waitFor();
    await page.getByRole('button', { name: 'Change' }).click();
    await form.getByLabel('Statements at a time').fill('5');
    (await server.patch('/api/v2/warehouses/default', { queueMax: 50 })).is(200);
    await page.getByText('of 50 places').waitFor();
    await form.getByRole('button', { name: 'Save' }).click();
    await form.getByRole('alert').getByText('VERSION_CONFLICT').waitFor();
    await form.getByRole('button', { name: 'Cancel' }).click();
    (await server.get('/api/v2/warehouses/default')).is(200, '0', { queriesMax: 7, queueMax: 50 });
    await consolePage.checkAccessibility();
    await consolePage.photograph('warehouses_dark');
    (await server.get('/api/v2/warehouses/default')).is(200, '0', { queriesMax: 7 });
    // The console shows a warehouse as running while it starts.
    const state = async () => (await server.get('/api/v2/warehouses/default')).at<string>('state');
    await eventually('the warehouse runs', async () => (await state()) === 'running');
    await consolePage.close([/status of 400/]);
  });

  it('asks before it disables a backend, and keeps the question while the backends cannot be listed', async () => {
    const consolePage = await ConsolePage.open(browser, server);
    const { page } = consolePage;
    const release = Promise.withResolvers<void>();
    const body = JSON.stringify(internalError);
    let isFailing = false;
    await page.route('**/api/v2/warehouses/default/backends?*', async (route) => {
      await release.promise;
      if (!isFailing) return route.continue();
      return route.fulfill({ status: 500, contentType: 'application/json', body });
    });
    await page.getByRole('link', { name: 'Warehouses' }).click();
    await page.getByRole('link', { name: /^default/ }).click();
    await page.getByText('Reading the backends').first().waitFor();
    release.resolve();
    await page.getByRole('button', { name: 'Disable' }).click();
    const dialog = page.getByRole('dialog', { name: 'Disable embedded?' });
    await dialog.getByText('No other backend has its tablets available').waitFor();
    isFailing = true;
    await page.getByText('The backends could not be listed').waitFor();
    await dialog.getByRole('button', { name: 'Disable backend' }).click();
    await dialog.waitFor({ state: 'detached' });
    isFailing = false;
    await page.getByText('Disabled', { exact: true }).waitFor();
    await consolePage.photograph('backend_disabled');
    await page.getByRole('button', { name: 'Enable' }).click();
    await page.getByRole('button', { name: 'Disable' }).waitFor();
    await consolePage.close([/status of 500/]);
  });

  it('creates and deletes a warehouse, and says why one in use cannot be deleted', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'warehouses' });
    const { page } = consolePage;
    await page.getByRole('button', { name: 'New warehouse' }).click();
    const form = page.getByRole('dialog', { name: 'New warehouse' });
    await form.getByLabel('Name').fill('reports');
    await form.getByLabel('Memory (MiB)').fill('256');
    await form.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('heading', { name: 'reports', level: 2 }).waitFor();
    (await server.get('/api/v2/warehouses/reports')).is(200, '0', { memoryLimitBytes: 256 * 1024 ** 2 });
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Delete warehouse' }).click();
    await page.getByRole('heading', { name: 'default', level: 2 }).waitFor();
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Delete warehouse' }).click();
    await page.getByRole('alert').getByText('IN_USE').waitFor();
    await consolePage.close([/status of 400/]);
  });

  it('releases a statement that was refused because it ended the engine, on a phone', async () => {
    const quarantined = async (): Promise<number> =>
      (await server.get('/api/v2/warehouses/risky')).is(200).at('quarantinedStatements');
    await eventually('the statement is quarantined', async () => (await quarantined()) === 1);
    const consolePage = await ConsolePage.open(browser, server, { ...phone, path: 'warehouses/risky' });
    const { page } = consolePage;
    await page.getByText('1 statement is quarantined').waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('warehouses_phone');
    assert.equal(await page.evaluate<number>('document.documentElement.scrollWidth'), 390);
    await page.getByRole('button', { name: 'Release' }).click();
    await page.getByText('1 statement is quarantined').waitFor({ state: 'detached' });
    assert.equal(await quarantined(), 0);
    await consolePage.close();
  });
});
