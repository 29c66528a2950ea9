// The console while things fail: no connection, slow and failing answers, and a server that is restarted. Each failure says what happened and
// what to do, and no text is lost.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Browser } from 'playwright-core';
import { eventually } from '../deadline.ts';
import { type ServerProcess, startProcess } from '../server.ts';
import { ConsolePage, launchBrowser, noBrowser } from './browser.ts';

const internalError = {
  code: 'INTERNAL_ERROR',
  message: 'an unexpected error occurred',
  result: { outcome: 'notApplied' },
};
const network = /net::ERR_|Failed to load resource|status of 5/;

describe('the console during failures', { skip: noBrowser }, () => {
  let server: ServerProcess;
  let browser: Browser;
  let dataDirectory: string;
  before(async () => {
    dataDirectory = await mkdtemp(join(tmpdir(), 'tabularium-console-'));
    [server, browser] = await Promise.all([startProcess([], dataDirectory), launchBrowser()]);
  });
  after(async () => {
    await Promise.all([browser?.close(), server?.close()]);
    await rm(dataDirectory, { recursive: true, force: true });
  });

  const draftTexts = async () =>
    (await server.get('/api/v2/drafts'))
      .is(200)
      .at<{ sql: string }[]>('drafts')
      .map(({ sql }) => sql);

  it('says that there is no connection, keeps the text, and saves it when the connection is back', async () => {
    const opened = await ConsolePage.open(browser, server, { path: 'sql' });
    const { page } = opened;
    await page.getByRole('treeitem', { name: 'default' }).waitFor();
    await page.context().setOffline(true);
    await page.getByRole('textbox', { name: 'SQL' }).fill('SELECT 7 * 6 AS answer');
    await page.keyboard.press('Control+Enter');
    const alert = page.getByRole('alert');
    await alert.getByText('NO_ANSWER').waitFor();
    await alert.getByText('Check that the server runs').waitFor();
    await opened.photograph('no_connection');
    await page.getByLabel('Not saved', { exact: true }).waitFor();
    await page.context().setOffline(false);
    await page.getByRole('textbox', { name: 'SQL' }).press('Control+Enter');
    await page.getByRole('gridcell', { name: '42' }).waitFor();
    await eventually('it is saved', async () => (await draftTexts()).includes('SELECT 7 * 6 AS answer'), 30_000);
    await opened.close([network]);
  });

  it('shows that a slow answer is awaited, and a failure with a way to try again', async () => {
    const opened = await ConsolePage.open(browser, server, { path: 'sql' });
    const { page } = opened;
    await page.getByRole('treeitem', { name: 'default' }).waitFor();
    let answers: 'late' | 'failing' | 'normal' = 'late';
    const release = Promise.withResolvers<void>();
    await page.route('**/api/v2/queries/search', async (route) => {
      if (answers === 'late') await release.promise;
      if (answers !== 'failing') return route.continue();
      return route.fulfill({ status: 500, contentType: 'application/json', body: JSON.stringify(internalError) });
    });
    await page.getByRole('link', { name: 'History' }).click();
    await page.getByRole('status').getByText('Loading').waitFor();
    answers = 'failing';
    release.resolve();
    await page.getByRole('alert').getByText('INTERNAL_ERROR').waitFor();
    await opened.checkAccessibility();
    await opened.photograph('failed_list');
    answers = 'normal';
    await page.getByRole('button', { name: 'Try again' }).click();
    await page
      .getByRole('row', { name: /answer/ })
      .first()
      .waitFor();
    await opened.close([network]);
  });

  const listsOfRooms = [
    { path: 'catalog', list: '**/api/v2/catalogs?*', part: 'Failure', shows: { role: 'cell', name: 'default' } },
    { path: 'access', list: '**/api/v2/users/search', part: 'Failure', shows: { role: 'cell', name: 'root' } },
    { path: 'tasks', list: '**/api/v2/tasks/search', part: undefined, shows: { role: 'row', name: /SELECT 5/ } },
    {
      path: 'warehouses',
      list: '**/api/v2/warehouses?*',
      part: undefined,
      shows: { role: 'heading', name: 'default' },
    },
  ] as const;
  for (const { path, list, part, shows } of listsOfRooms) {
    it(`shows a wait, a failure and a lost connection in the room ${path}, and continues`, async () => {
      await server.ended(await server.post('/api/v2/catalogs/default/query', { sql: 'SELECT 5', waitSeconds: 0 }));
      const opened = await ConsolePage.open(browser, server);
      const { page } = opened;
      // The explorer beside the catalog shows a failure of its own.
      const failure = part === 'Failure' ? page.getByRole('region', { name: part }) : page;
      const release = Promise.withResolvers<void>();
      await page.route(list, async (route) => {
        await release.promise;
        await route.fulfill({ status: 500, contentType: 'application/json', body: JSON.stringify(internalError) });
      });
      await page.getByRole('navigation', { name: 'Rooms' }).locator(`a[href$="/${path}"]`).click();
      await page.getByRole('status').getByText('Loading').first().waitFor();
      release.resolve();
      await failure.getByRole('alert').getByText('INTERNAL_ERROR').waitFor();
      await opened.checkAccessibility();
      await opened.photograph(`failed_${path}`);
      await page.unroute(list);
      await page.context().setOffline(true);
      await failure.getByRole('button', { name: 'Try again' }).click();
      await failure.getByRole('alert').getByText('NO_ANSWER').waitFor();
      await page.context().setOffline(false);
      // The page reconnects by itself.
      await page.getByRole(shows.role, { name: shows.name }).first().waitFor();
      await failure.getByRole('alert').waitFor({ state: 'detached' });
      await opened.close([network]);
    });
  }

  it('continues after the server was restarted', async () => {
    const opened = await ConsolePage.open(browser, server, { path: 'sql' });
    const { page } = opened;
    await page.getByRole('textbox', { name: 'SQL' }).fill('SELECT 1 AS before_it');
    await page.keyboard.press('Control+Enter');
    await page.getByRole('gridcell', { name: '1' }).waitFor();
    const { port } = server;
    await server.close();
    await page.getByRole('textbox', { name: 'SQL' }).fill('SELECT 2 AS after_it');
    await page.keyboard.press('Control+Enter');
    await page.getByRole('alert').getByText('NO_ANSWER').waitFor();
    server = await startProcess([`--port=${port}`], dataDirectory);
    await page.getByRole('textbox', { name: 'SQL' }).press('Control+Enter');
    await page.getByRole('gridcell', { name: '2' }).waitFor();
    assert.equal(await page.getByRole('alert').count(), 0);
    await opened.close([network]);
  });
});
