// The room of tasks and schedules: a running task with its progress that is cancelled, a failed one, results, filters; schedules that are
// created, paused, changed and deleted.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Browser } from 'playwright-core';
import { eventually } from '../deadline.ts';
import { endOfTask, start, type TestServer } from '../server.ts';
import { ConsolePage, launchBrowser, noBrowser, phone } from './browser.ts';

const endless = 'SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range % 7 = b.range % 11';

/** Details are read again and again, perhaps also while their object is being deleted. */
const readAfterDeletion = /status of 404 .*\/api\/v2\/(?:tasks|schedules)\//;

describe('the room of tasks', { skip: noBrowser }, () => {
  let server: TestServer;
  let browser: Browser;
  const submit = async (sql: string): Promise<string> =>
    (await server.query('shop', sql, { waitSeconds: 0 })).is(202).at('taskId');
  const end = (taskId: string) => endOfTask(server, `/api/v2/tasks/${taskId}`);

  before(async () => {
    [server, browser] = await Promise.all([start(), launchBrowser()]);
    (await server.post('/api/v2/databases', { name: 'shop' })).is(201);
    const columns = [
      { name: 'id', type: 'BIGINT' },
      { name: 'customer', type: 'STRING' },
    ];
    (await server.post('/api/v2/databases/shop/tables', { name: 'orders', columns })).is(201);
    (await server.query('shop', "INSERT INTO orders SELECT i, 'customer ' || i FROM range(1000) t(i)")).is(200);
    await end(await submit('SELECT * FROM orders ORDER BY id'));
    await end(await submit('SELECT sum(CAST(customer AS INT)) FROM orders'));
  });
  after(() => Promise.all([browser?.close(), server?.close()]));

  it('shows running tasks with their progress and cancels one', async () => {
    const taskId = await submit(endless);
    const consolePage = await ConsolePage.open(browser, server, { path: 'tasks' });
    const { page } = consolePage;
    await page.getByRole('progressbar').waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('tasks_light');
    await page.getByRole('button', { name: 'Cancel Query' }).click();
    await page.getByRole('cell', { name: 'Cancelled' }).waitFor();
    (await end(taskId)).is(200, '0', { state: 'cancelled' });
    await consolePage.close();
  });

  it('cancels a task from its details, in dark', async () => {
    const taskId = await submit(endless);
    const consolePage = await ConsolePage.open(browser, server, { path: `tasks/${taskId}`, colorScheme: 'dark' });
    const { page } = consolePage;
    const details = page.getByRole('region', { name: 'Details' });
    await details.getByRole('progressbar').waitFor();
    await details.getByText('range(10000000)').waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('tasks_dark');
    await details.getByRole('button', { name: 'Cancel task' }).click();
    await details.getByText('Cancelled').waitFor();
    await details.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByText('Its result and its files are deleted').waitFor();
    await page.getByRole('button', { name: 'Delete task' }).click();
    await details.waitFor({ state: 'detached' });
    (await server.get(`/api/v2/tasks/${taskId}`)).is(404, 'OBJECT_NOT_FOUND');
    await consolePage.close([readAfterDeletion]);
  });

  it('filters by state, says why a task failed, and shows the rows of one that succeeded', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'tasks?state=failed' });
    const { page } = consolePage;
    const tasks = page.getByRole('region', { name: 'Tasks' });
    await tasks.getByRole('row', { name: /customer AS INT/ }).click();
    const details = page.getByRole('region', { name: 'Details' });
    await details.getByRole('alert').getByText('SQL_INVALID').waitFor();
    assert.equal(await tasks.getByRole('cell', { name: 'Succeeded' }).count(), 0);
    await consolePage.photograph('tasks_failed');
    await page.getByRole('combobox', { name: 'State' }).click();
    await page.getByRole('option', { name: 'Succeeded' }).click();
    await tasks.getByRole('row', { name: /ORDER BY id/ }).click();
    await details.getByRole('cell', { name: 'customer 3', exact: true }).waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('tasks_result');
    await page.getByRole('textbox', { name: 'Submitted by' }).fill('nobody');
    await page.getByText('No task matches the filters').waitFor();
    await consolePage.close();
  });

  it('shows a list of a result as a table, with whole texts', async () => {
    (await server.post('/api/v2/warehouses', { name: 'second', engine: 'duckdb' })).is(201);
    (await server.post('/api/v2/catalogs', { name: 'sales' })).is(201);
    const query = { sql: 'SELECT 1', catalog: 'sales', warehouse: 'default' };
    (await server.post('/api/v2/schedules', { name: 'daily', cron: '30 2 * * *', query })).is(201);
    const started = await server.post('/api/v2/catalogs/sales/move', { warehouse: 'second', dryRun: true });
    const taskId = started.is(202).at<string>('taskId');
    const task = (await end(taskId)).is(200, '0', { state: 'succeeded' });
    const consolePage = await ConsolePage.open(browser, server, { path: `tasks/${taskId}` });
    const problems = consolePage.page.getByRole('region', { name: 'Problems' });
    await problems.getByRole('columnheader', { name: 'Reason' }).waitFor();
    await problems.getByRole('cell', { name: task.at('result', 'problems', 0, 'reason'), exact: true }).waitFor();
    await consolePage.checkAccessibility();
    await problems.scrollIntoViewIfNeeded();
    await consolePage.photograph('task_problems_light');
    await consolePage.close();
    for (const path of ['schedules/daily', 'catalogs/sales', 'warehouses/second'])
      (await server.delete(`/api/v2/${path}`)).is(200);
  });

  it('creates a schedule with its next times, pauses, changes and deletes it', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'tasks/schedules' });
    const { page } = consolePage;
    await page.getByRole('button', { name: 'New schedule' }).click();
    const dialog = page.getByRole('dialog', { name: 'New schedule' });
    await dialog.getByLabel('Name').fill('nightly');
    await dialog.getByLabel('Statement').fill('SELECT count(*) FROM orders');
    for (const name of ['default', 'shop'])
      await dialog.locator(`datalist option[value="${name}"]`).first().waitFor({ state: 'attached' });
    await dialog.getByLabel('Database').fill('shop');
    await dialog.getByLabel('Time zone').fill('Europe/Nowhere');
    await dialog.getByText('The time zone must be').waitFor();
    await dialog.getByLabel('Time zone').fill('Europe/Berlin');
    await dialog.getByLabel('Cron expression').fill('30 2 1 1 *');
    const times = dialog.getByRole('region', { name: 'Next times' }).getByText(/1 Jan \d{4}.* 02:30 CET/);
    await eventually('the next five times are shown', async () => (await times.count()) === 5);
    await consolePage.checkAccessibility();
    await consolePage.photograph('schedule_form_light');
    await dialog.getByRole('button', { name: 'Create' }).click();

    const details = page.getByRole('region', { name: 'Details' });
    await details.getByText('It has not run yet').waitFor();
    const record = (await server.get('/api/v2/schedules/nightly')).is(200, '0', { timeZone: 'Europe/Berlin' });
    assert.match(record.at('nextRunAt'), /-01-01T01:30:00/);
    await details.getByRole('button', { name: 'Run now' }).click();
    await details.getByRole('heading', { name: 'Result' }).waitFor();
    (await server.get('/api/v2/schedules/nightly')).is(200, '0', { nextRunAt: record.at('nextRunAt') });
    await page.goBack();
    await details
      .getByRole('region', { name: 'Last runs' })
      .getByRole('row', { name: /Succeeded/ })
      .waitFor();
    await details.getByRole('button', { name: 'Pause' }).click();
    await details.getByText('It is paused').waitFor();
    await details.getByRole('button', { name: 'Resume' }).click();
    await details.getByText('02:30 CET').first().waitFor();
    await details.getByRole('button', { name: 'Change' }).click();
    const form = page.getByRole('dialog', { name: 'Change nightly' });
    await form.getByLabel('Comment').fill('Every new year');
    await form.getByLabel('Cron expression').fill('45 2 1 1 *');
    await eventually('the new times are shown', async () => (await form.getByText('02:45 CET').count()) === 5);
    await consolePage.photograph('schedule_change_light');
    await form.getByRole('button', { name: 'Save' }).click();
    await details.getByText('Every new year').waitFor();
    await details.getByText('02:45 CET').first().waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('schedules_light');
    await details.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Delete schedule' }).click();
    await page.getByText('There are no schedules').waitFor();
    (await server.get('/api/v2/schedules/nightly')).is(404, 'OBJECT_NOT_FOUND');
    await consolePage.close([readAfterDeletion]);
  });

  it('shows in the list and the details of a schedule that its last run failed, and why', async () => {
    const query = { sql: 'SELECT sum(CAST(customer AS INT)) FROM orders', database: 'shop' };
    (await server.post('/api/v2/schedules', { name: 'failing', query, cron: '0 2 1 1 *' })).is(201);
    const taskId = (await server.post('/api/v2/schedules/failing/run')).is(202).at<string>('taskId');
    await end(taskId);
    const consolePage = await ConsolePage.open(browser, server, { path: 'tasks/schedules' });
    const { page } = consolePage;
    await page.getByRole('row', { name: /failing Active .* Failed/ }).waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('schedules_failed');
    await page.getByRole('row', { name: /failing/ }).click();
    const details = page.getByRole('region', { name: 'Details' });
    await details.getByRole('alert').getByText('The last run failed').waitFor();
    await details.getByRole('alert').getByText('SQL_INVALID').waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('schedule_failed');
    await details.getByRole('row', { name: /Failed/ }).click();
    await details.getByRole('link', { name: 'failing' }).click();
    await details.getByRole('button', { name: 'Change' }).click();
    const form = page.getByRole('dialog', { name: 'Change failing' });
    await form.getByLabel('Comment').fill('mine');
    (await server.patch('/api/v2/schedules/failing', { comment: 'of somebody else' })).is(200);
    await details.getByText('of somebody else').waitFor();
    await form.getByRole('button', { name: 'Save' }).click();
    await form.getByRole('alert').getByText('VERSION_CONFLICT').waitFor();
    await form.getByText('Somebody has changed it').waitFor();
    (await server.get('/api/v2/schedules/failing')).is(200, '0', { comment: 'of somebody else' });
    (await server.delete('/api/v2/schedules/failing')).is(200);
    (await server.delete(`/api/v2/tasks/${taskId}`)).is(200);
    await consolePage.close([/status of 400/, readAfterDeletion]);
  });

  it('fits on a phone, where the details cover the list', async () => {
    const consolePage = await ConsolePage.open(browser, server, { ...phone, path: 'tasks' });
    const { page } = consolePage;
    await page.getByRole('row', { name: /Failed/ }).waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('tasks_phone');
    await page.getByRole('row', { name: /Failed/ }).click();
    await page.getByRole('alert').waitFor();
    await consolePage.photograph('tasks_phone_detail');
    assert.equal(await page.evaluate<number>('document.documentElement.scrollWidth'), 390);
    await consolePage.close();
  });
});
