// Access in a browser: users, roles, grants and tokens are made and revoked, decisions are explained, the audit trail is searched, and
// a user without rights sees only himself.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Browser } from 'playwright-core';
import { grant, newPerson } from '../access/people.ts';
import { start, type TestServer } from '../server.ts';
import { ConsolePage, launchBrowser, noBrowser, phone } from './browser.ts';

const hostileName = '<b onmouseover=alert(1)>role</b>';
const refused = /status of (400|403|404)/;
const shop = '/api/v2/catalogs/default/databases/shop';

describe('access', { skip: noBrowser }, () => {
  let server: TestServer;
  let browser: Browser;
  before(async () => {
    [server, browser] = await Promise.all([start(), launchBrowser()]);
    (await server.post('/api/v2/databases', { name: 'shop' })).is(201);
    for (const name of ['ann', 'bob']) (await server.post('/api/v2/users', { name, comment: 'Finance' })).is(201);
    (await server.post('/api/v2/roles', { name: 'analysts', members: ['bob'] })).is(201);
    (await server.post('/api/v2/roles', { name: hostileName, comment: hostileName })).is(201);
    await grant(server, 'roles/analysts', [['read', '/catalogs/default/databases/shop']]);
  });
  after(() => Promise.all([browser?.close(), server?.close()]));

  it('creates a user and a token, grants and revokes', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'access' });
    const { page } = consolePage;
    await page.getByRole('cell', { name: 'analysts' }).waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('access_users_light');
    await page.getByRole('button', { name: 'Create user' }).click();
    await page.getByLabel('Name', { exact: true }).fill('carla');
    await page.getByLabel('Password').fill('correct horse battery');
    const code = page.getByRole('region', { name: 'equivalent call' });
    assert.doesNotMatch((await code.textContent()) ?? '', /battery/, 'the password is not shown');
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
    await page.getByRole('heading', { name: 'carla', exact: true }).waitFor();
    await page.getByRole('button', { name: 'Grant', exact: true }).click();
    await page.getByLabel('On', { exact: true }).fill(shop);
    await consolePage.checkAccessibility();
    await consolePage.photograph('access_grant');
    await page.getByRole('dialog').getByRole('button', { name: 'Grant', exact: true }).click();
    await page.getByRole('cell', { name: shop }).waitFor();
    assert.equal((await server.get('/api/v2/users/carla/grants')).is(200).at<unknown[]>('grants').length, 1);
    await page.getByRole('button', { name: 'Revoke' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await page.getByText('Nothing was granted').waitFor();

    await page.getByRole('tab', { name: 'Tokens' }).click();
    await page.getByRole('button', { name: 'Create token' }).click();
    await page.getByLabel('Name', { exact: true }).fill('nightly');
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
    const secret = (await page.getByRole('region', { name: 'secret', exact: true }).textContent()) ?? '';
    const headers = { authorization: `Bearer ${secret}` };
    const whoami = await server.request('POST', '/api/v2/users/identify', { headers, body: {} });
    assert.equal(whoami.is(200).at('name'), 'carla');
    await consolePage.checkAccessibility();
    await page.getByRole('button', { name: 'I have copied it' }).click();
    await page.getByRole('region', { name: 'secret', exact: true }).waitFor({ state: 'detached' });
    assert.equal((await page.content()).includes(secret), false, 'the secret is shown once');
    await consolePage.photograph('access_tokens');
    await page.getByRole('button', { name: 'Revoke' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await page.getByText('No tokens').waitFor();
    (await server.request('POST', '/api/v2/users/identify', { headers, body: {} })).is(401, 'UNAUTHENTICATED');
    await consolePage.close();
  });

  it('shows grants by object, and why a user may do something', async () => {
    const consolePage = await ConsolePage.open(browser, server, {
      path: `access/grants?on=${shop}`,
      colorScheme: 'dark',
    });
    const { page } = consolePage;
    await page.getByRole('cell', { name: 'analysts' }).waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('access_by_object_dark');
    await page.getByRole('link', { name: 'Why may somebody do something here?' }).click();
    await page.getByRole('combobox', { name: 'User' }).fill('bob');
    await page.getByText('grant of role').waitFor();
    await page.getByRole('link', { name: 'analysts' }).waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('access_why_dark');
    await page.reload();
    await page.getByText('grant of role').waitFor();
    await consolePage.close();
  });

  it('changes the members of a role, and shows hostile names as text', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'access/roles', colorScheme: 'dark' });
    const { page } = consolePage;
    await page.getByRole('cell', { name: hostileName }).first().waitFor();
    await consolePage.photograph('access_roles_dark');
    await page.getByRole('cell', { name: 'analysts' }).click();
    await page.getByRole('button', { name: 'Add member' }).click();
    await page.getByRole('combobox', { name: 'User' }).fill('ann');
    await page.getByRole('dialog').getByRole('button', { name: 'Add' }).click();
    await page.getByRole('cell', { name: 'ann' }).waitFor();
    assert.deepEqual((await server.get('/api/v2/roles/analysts')).is(200).at('members'), ['ann', 'bob']);
    await consolePage.checkAccessibility();
    await consolePage.photograph('access_role_dark');
    await consolePage.close();
  });

  it('creates, changes and deletes an identity provider', async () => {
    const opened = await ConsolePage.open(browser, server, { path: 'access/identity_providers' });
    const { page } = opened;
    await page.getByText('No identity providers').waitFor();
    await page.getByRole('button', { name: 'Create identity provider' }).click();
    const form = page.getByRole('dialog');
    await form.getByLabel('Name', { exact: true }).fill('company');
    await form.getByLabel('Issuer').fill('https://login.invalid');
    await form.getByLabel('Audiences').fill('tabularium\nother');
    await form.getByLabel('Claim with roles').fill('groups');
    await form.getByLabel('Roles', { exact: true }).fill('finance');
    await form.getByText('Write value = role').waitFor();
    assert.equal(await form.getByRole('button', { name: 'Create' }).isEnabled(), false);
    await form.getByLabel('Roles', { exact: true }).fill('cn=finance = analysts\nall = analysts');
    await form.getByLabel('Enabled').uncheck();
    await opened.checkAccessibility();
    await opened.photograph('access_provider_form');
    await form.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('cell', { name: 'https://login.invalid' }).waitFor();
    const path = '/api/v2/identity_providers/company';
    const record = (await server.get(path)).is(200, '0', { audiences: ['tabularium', 'other'], disabled: true });
    assert.deepEqual(record.at('roleMapping'), { 'cn=finance': 'analysts', all: 'analysts' });
    await page.getByRole('button', { name: 'Change company' }).click();
    await form.getByLabel('Roles', { exact: true }).fill('all = analysts');
    await form.getByLabel('Claim with the name').fill('sub');
    await form.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('cell', { name: 'sub', exact: true }).waitFor();
    assert.deepEqual((await server.get(path)).is(200).at('roleMapping'), { all: 'analysts' });
    await opened.checkAccessibility();
    await opened.photograph('access_providers');
    await page.getByRole('button', { name: 'Delete company' }).click();
    await form.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('No identity providers').waitFor();
    (await server.get(path)).is(404, 'OBJECT_NOT_FOUND');
    await opened.close();
  });

  it('searches the audit trail by what is in the address', async () => {
    const consolePage = await ConsolePage.open(browser, server, { path: 'access/audit?action=roles.create' });
    const { page } = consolePage;
    await page.getByRole('cell', { name: 'roles.create' }).first().waitFor();
    assert.equal(await page.getByRole('cell', { name: 'users.create' }).count(), 0);
    await page.getByLabel('Action').fill('users.create');
    await page.getByRole('cell', { name: 'users.create' }).first().waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('access_audit');
    await page.getByRole('cell', { name: 'users.create' }).first().click();
    await page.getByText('Position in the chain').waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('access_audit_event');
    await consolePage.close();
  });

  it('shows a user without rights only himself, on a phone too', async () => {
    const eve = await newPerson(server, 'eve');
    const consolePage = await ConsolePage.open(browser, server, { ...phone, path: 'access/users', token: eve.token });
    const { page } = consolePage;
    await page.getByRole('cell', { name: 'eve' }).first().waitFor();
    assert.equal(await page.getByRole('cell', { name: 'ann', exact: true }).count(), 0);
    await consolePage.checkAccessibility();
    await consolePage.photograph('access_users_phone');
    await page.getByRole('tab', { name: 'Audit trail' }).click();
    await page.getByText('The audit trail cannot be shown').waitFor();
    await page.getByText('FORBIDDEN').waitFor();
    await consolePage.photograph('access_audit_phone');
    assert.equal(await page.evaluate<number>('document.documentElement.scrollWidth'), 390);
    await consolePage.close([refused]);
  });
});
