// Rooms of the console while the server is restarted, and after a sign-in has expired: what was entered in an open form stays, is sent when
// the user submits it again, and is done once; lists are read again by themselves.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Browser, Locator, Page } from 'playwright-core';
import { newPerson } from '../access/people.ts';
import { eventually } from '../deadline.ts';
import { type ServerProcess, startProcess } from '../server.ts';
import { ConsolePage, launchBrowser, noBrowser, phone } from './browser.ts';

const network = /net::ERR_|Failed to load resource/;
const unauthorized = /status of 401/;
const refused = /status of 403/;

/** A form of a room that creates an object. */
interface Form {
  readonly path: string;
  readonly button: string;
  readonly title: string;
  readonly fields: Readonly<Record<string, string>>;
  /** Of the object. */
  readonly uri: string;
  readonly action: string;
  /** What the page shows of the object. */
  readonly created: (page: Page) => Locator;
}

const rooms = ['catalog', 'access', 'tasks'] as const;
type RoomName = (typeof rooms)[number];

const forms: Readonly<Record<RoomName, (name: string) => Form>> = {
  catalog: (name) => ({
    path: 'catalog/default',
    button: 'Create database',
    title: 'Create database in default',
    fields: { Name: name, Comment: 'entered before' },
    uri: `/api/v2/catalogs/default/databases/${name}`,
    action: 'databases.create',
    created: (page) => page.getByRole('heading', { name, exact: true }),
  }),
  access: (name) => ({
    path: 'access/users',
    button: 'Create user',
    title: 'Create user',
    fields: { Name: name, Comment: 'entered before' },
    uri: `/api/v2/users/${name}`,
    action: 'users.create',
    created: (page) => page.getByRole('heading', { name, exact: true }),
  }),
  tasks: (name) => ({
    path: 'tasks/schedules',
    button: 'New schedule',
    title: 'New schedule',
    fields: { Name: name, Statement: 'SELECT 40 + 2', Comment: 'entered before' },
    uri: `/api/v2/schedules/${name}`,
    action: 'schedules.create',
    created: (page) => page.getByRole('region', { name: 'Details' }).getByText('It has not run yet'),
  }),
};

/** A list of a room, another one that one click opens, and what they show. */
interface Lists {
  readonly path: string;
  readonly shown: (page: Page) => Locator;
  readonly other: (page: Page) => Locator;
  readonly shownThere: (page: Page) => Locator;
}

const lists: Readonly<Record<RoomName, Lists>> = {
  catalog: {
    path: 'catalog',
    shown: (page) => page.getByRole('cell', { name: 'default', exact: true }),
    other: (page) => page.getByRole('cell', { name: 'default', exact: true }),
    shownThere: (page) => page.getByRole('cell', { name: 'shop', exact: true }),
  },
  access: {
    path: 'access/users',
    shown: (page) => page.getByRole('cell', { name: 'ann', exact: true }),
    other: (page) => page.getByRole('tab', { name: 'Roles' }),
    shownThere: (page) => page.getByRole('cell', { name: 'analysts', exact: true }),
  },
  tasks: {
    path: 'tasks',
    shown: (page) => page.getByRole('row', { name: /SELECT 5/ }),
    other: (page) => page.getByRole('tab', { name: 'Schedules' }),
    shownThere: (page) => page.getByRole('row', { name: /nightly/ }),
  },
};

const dialogOf = (page: Page, { title }: Form) => page.getByRole('dialog', { name: title, exact: true });
const fieldOf = (page: Page, form: Form, label: string) => dialogOf(page, form).getByLabel(label, { exact: true });
const submit = (page: Page, form: Form) =>
  dialogOf(page, form).getByRole('button', { name: 'Create', exact: true }).click();
const notice = (page: Page) => page.getByText('The server does not answer');

async function fillForm(page: Page, form: Form): Promise<void> {
  await page.getByRole('button', { name: form.button, exact: true }).click();
  for (const [label, text] of Object.entries(form.fields)) await fieldOf(page, form, label).fill(text);
}

async function requireInput(page: Page, form: Form): Promise<void> {
  await dialogOf(page, form).waitFor();
  for (const [label, text] of Object.entries(form.fields))
    assert.equal(await fieldOf(page, form, label).inputValue(), text, `${form.title}: ${label}`);
}

describe('the rooms of the console during failures', { skip: noBrowser }, () => {
  let server: ServerProcess;
  let browser: Browser;
  let dataDirectory: string;
  before(async () => {
    dataDirectory = await mkdtemp(join(tmpdir(), 'tabularium-console-'));
    [server, browser] = await Promise.all([startProcess([], dataDirectory), launchBrowser()]);
    (await server.post('/api/v2/databases', { name: 'shop' })).is(201);
    (await server.post('/api/v2/users', { name: 'ann' })).is(201);
    (await server.post('/api/v2/roles', { name: 'analysts' })).is(201);
    const nightly = { name: 'nightly', query: { sql: 'SELECT 6' }, cron: '0 0 1 1 *' };
    (await server.post('/api/v2/schedules', nightly)).is(201);
    await server.ended(await server.post('/api/v2/catalogs/default/query', { sql: 'SELECT 5', waitSeconds: 0 }));
  });
  after(async () => {
    await Promise.all([browser?.close(), server?.close()]);
    await rm(dataDirectory, { recursive: true, force: true });
  });

  const requireDoneOnce = async ({ uri, action }: Form) => {
    (await server.get(uri)).is(200);
    const search = { object: uri, action, outcome: '0' };
    const events = (await server.post('/api/v2/audit_events/search', search)).is(200).at<unknown[]>('auditEvents');
    assert.equal(events.length, 1, uri);
  };

  /** Stops the server while something is done, and starts it again at the same address. */
  const withoutServer = async (work: () => Promise<unknown>) => {
    const { port } = server;
    await server.close();
    await work();
    server = await startProcess([`--port=${port}`], dataDirectory);
  };

  it('keep what was entered in an open form while the server is restarted, and send it once', async () => {
    const opened = await Promise.all(
      rooms.map(async (room) => {
        const form = forms[room](`restarted_${room}`);
        const consolePage = await ConsolePage.open(browser, server, { path: form.path });
        await fillForm(consolePage.page, form);
        return { room, form, consolePage };
      }),
    );
    await withoutServer(() =>
      Promise.all(
        opened.map(async ({ room, form, consolePage }) => {
          const { page } = consolePage;
          await submit(page, form);
          await dialogOf(page, form).getByRole('alert').getByText('Check that the server runs').waitFor();
          await requireInput(page, form);
          await consolePage.photograph(`restarted_${room}_form`);
        }),
      ),
    );
    for (const { form, consolePage } of opened) {
      const { page } = consolePage;
      await notice(page).waitFor({ state: 'detached' });
      await requireInput(page, form);
      await submit(page, form);
      await form.created(page).waitFor();
      await dialogOf(page, form).waitFor({ state: 'detached' });
      await requireDoneOnce(form);
      await consolePage.close([network]);
    }
  });

  it('say that the server does not answer, and show what could not be read by themselves when it answers again', async () => {
    const opened = await Promise.all(
      rooms.map(async (room) => {
        const consolePage = await ConsolePage.open(browser, server, { path: lists[room].path });
        await lists[room].shown(consolePage.page).first().waitFor();
        return { room, consolePage };
      }),
    );
    await withoutServer(() =>
      Promise.all(
        opened.map(async ({ room, consolePage }) => {
          const { page } = consolePage;
          await lists[room].other(page).first().click();
          await notice(page).waitFor();
          await page.getByRole('main').getByRole('alert').getByText('NO_ANSWER').first().waitFor();
          await consolePage.checkAccessibility();
          await consolePage.photograph(`restarted_${room}`);
        }),
      ),
    );
    for (const { room, consolePage } of opened) {
      const { page } = consolePage;
      await lists[room].shownThere(page).first().waitFor();
      await notice(page).waitFor({ state: 'detached' });
      await page.getByRole('main').getByRole('alert').first().waitFor({ state: 'detached' });
      await consolePage.close([network]);
    }
  });

  it('keep a list that is read again and again while the server does not answer', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'tasks' });
    const { page } = consolePage;
    await lists.tasks.shown(page).first().waitFor();
    await withoutServer(async () => {
      await notice(page).waitFor();
      await lists.tasks.shown(page).first().waitFor();
    });
    await notice(page).waitFor({ state: 'detached' });
    await lists.tasks.shown(page).first().waitFor();
    assert.equal(await page.getByRole('alert').count(), 0);
    await consolePage.close([network]);
  });

  let tokenCount = 0;
  /** A page of a sign-in that `expire` ends. */
  const openExpiring = async (path: string) => {
    const name = `short_${++tokenCount}`;
    const token = (await server.post('/api/v2/users/root/tokens', { name })).is(201).at<string>('secret');
    const consolePage = await ConsolePage.open(browser, server, { path, token });
    const expire = async () => void (await server.delete(`/api/v2/users/root/tokens/${name}`)).is(200);
    return { consolePage, page: consolePage.page, expire };
  };
  const isExpired = (page: Page) => page.getByText('Your sign-in has expired').waitFor();

  for (const room of rooms) {
    it(`${room}: the form is there with its input after the sign-in has expired, and is sent once`, async () => {
      const form = forms[room](`expired_${room}`);
      const { consolePage, page, expire } = await openExpiring(form.path);
      await fillForm(page, form);
      const url = page.url();
      await expire();
      // With the last field in focus; the page may have noticed by itself that the sign-in has expired.
      await page.keyboard.press('Enter');
      await isExpired(page);
      await dialogOf(page, form).waitFor({ state: 'hidden' });
      await eventually('the focus is in the sign-in', () =>
        page.getByLabel('Access token').evaluate((element) => element === element.ownerDocument.activeElement),
      );
      await consolePage.checkAccessibility();
      await consolePage.photograph(`expired_${room}`);
      await consolePage.signIn(server.token);
      await requireInput(page, form);
      assert.equal(page.url(), url);
      await consolePage.checkAccessibility();
      await submit(page, form);
      await form.created(page).waitFor();
      await dialogOf(page, form).waitFor({ state: 'detached' });
      await requireDoneOnce(form);
      await consolePage.close([unauthorized]);
    });

    it(`${room}: a list is shown again after the sign-in has expired`, async () => {
      const { path, shown, other, shownThere } = lists[room];
      const { consolePage, page, expire } = await openExpiring(path);
      await shown(page).first().waitFor();
      await expire();
      // The list of tasks is read again without a click.
      const isClicked = room === 'tasks' || (await consolePage.clickUntilExpired(other(page).first()));
      await isExpired(page);
      await consolePage.signIn(server.token);
      if (!isClicked) await other(page).first().click();
      await (room === 'tasks' ? shown : shownThere)(page).first().waitFor();
      await page.getByRole('alert').first().waitFor({ state: 'detached' });
      await consolePage.close([unauthorized]);
    });
  }

  it('show another user who signs in nothing of the first one', async () => {
    const guest = await newPerson(server, 'guest');
    const form = forms.catalog('never');
    const { consolePage, page, expire } = await openExpiring(form.path);
    await page.getByRole('treeitem', { name: 'default' }).waitFor();
    await fillForm(page, form);
    await expire();
    await page.keyboard.press('Enter');
    await isExpired(page);
    await consolePage.signIn(guest.token);
    await page.getByRole('button', { name: 'Signed in as guest' }).waitFor();
    await page.getByText('There is nothing that you may read').waitFor();
    assert.equal(await dialogOf(page, form).count(), 0);
    assert.equal(await page.getByRole('treeitem').count(), 0);
    await consolePage.close([unauthorized, refused]);
  });

  it('load: the corrected columns of a file are there after the sign-in has expired, on a phone', async () => {
    const name = 'short_load';
    const token = (await server.post('/api/v2/users/root/tokens', { name })).is(201).at<string>('secret');
    const consolePage = await ConsolePage.open(browser, server, { ...phone, path: 'load', token });
    const { page } = consolePage;
    const file = { name: 'kept.csv', mimeType: 'text/csv', buffer: Buffer.from('id,price\n1,2.5\n') };
    await page.getByLabel('File to load').setInputFiles(file);
    await page.getByLabel('Name of price').fill('corrected');
    await page.getByRole('combobox', { name: 'Database' }).click();
    await page.getByRole('option', { name: 'default.shop' }).click();
    (await server.delete(`/api/v2/users/root/tokens/${name}`)).is(200);
    await consolePage.clickUntilExpired(page.getByRole('button', { name: 'Load', exact: true }));
    await consolePage.signIn(server.token);
    assert.equal(await page.getByLabel('Name of price').inputValue(), 'corrected');
    await page.getByRole('button', { name: 'Load', exact: true }).click();
    await page.getByRole('heading', { name: '1 row loaded into shop.kept' }).waitFor();
    assert.deepEqual(await server.rows('shop', 'SELECT corrected FROM kept'), [[2.5]]);
    await consolePage.close([unauthorized]);
  });
});
