// Signing in to the console by the link that the server prints and by an identity provider; the session in several tabs.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { SignInProvider } from '../access/sign_in_provider.ts';
import { eventually } from '../deadline.ts';
import { start, type TestServer } from '../server.ts';
import { ConsolePage, desktop, launchBrowser, noBrowser, otherHost } from './browser.ts';

const unauthorized = /status of 401/;

describe('signing in to the console', { skip: noBrowser }, () => {
  const provider = new SignInProvider();
  let server: TestServer;
  let browser: Browser;
  before(async () => {
    [server, browser] = await Promise.all([start(), launchBrowser(), provider.start()]);
  });
  after(() => Promise.all([browser?.close(), server?.close(), provider.stop()]));

  async function openPage(url: string): Promise<ConsolePage> {
    const context = await browser.newContext({ ...desktop, reducedMotion: 'reduce' });
    const consolePage = new ConsolePage(await context.newPage(), server.url);
    await consolePage.page.goto(url);
    return consolePage;
  }
  const isSignedInAs = (page: Page, user: string) =>
    page.getByRole('button', { name: `Signed in as ${user}` }).waitFor();

  it('signs in by the link that the server prints, once, and leaves no secret in the address', async () => {
    const link = server.signInUrl() as string;
    const consolePage = await openPage(link);
    await isSignedInAs(consolePage.page, 'root');
    assert.doesNotMatch(consolePage.page.url(), /sign_in/);
    await consolePage.close();
    const secondPage = await openPage(link);
    await secondPage.page.getByText('The sign-in link was used').waitFor();
    await secondPage.checkAccessibility();
    await secondPage.photograph('sign_in_used_link');
    await secondPage.signIn(server.token);
    await secondPage.close([unauthorized]);
  });

  it('keeps the session over a reload, gives it to new tabs, and ends it in all of them', async () => {
    const consolePage = await openPage(server.signInUrl() as string);
    const { page } = consolePage;
    await isSignedInAs(page, 'root');
    await page.reload();
    await isSignedInAs(page, 'root');
    const other = new ConsolePage(await page.context().newPage(), server.url);
    await other.page.goto(`${server.url}/console/sql`);
    await isSignedInAs(other.page, 'root');
    await other.page.getByRole('button', { name: 'Signed in as root' }).click();
    await other.page.getByRole('menuitem', { name: 'Sign out' }).click();
    await other.page.close();
    await page.getByText('You are signed out.').waitFor();
    await eventually('only the token of the first test is left', async () => {
      const { tokens } = (await server.get('/api/v2/users/root/tokens')).result as { tokens: { name: string }[] };
      return tokens.length === 1;
    });
    await consolePage.close();
    assert.deepEqual(other.problems, []);
  });

  it('works over plain HTTP from another machine, where the browser lacks what it has in secure contexts only', async () => {
    const origin = `http://${otherHost}:${new URL(server.url).port}`;
    const context = await browser.newContext({ ...desktop, reducedMotion: 'reduce' });
    const consolePage = new ConsolePage(await context.newPage(), origin);
    const { page } = consolePage;
    await page.goto(`${origin}/console/sql`);
    assert.equal(await page.evaluate('isSecureContext'), false);
    await consolePage.signIn(server.token);
    await page.getByRole('textbox', { name: 'SQL' }).fill("SELECT 'over plain ' || 'HTTP' AS answer");
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('gridcell', { name: 'over plain HTTP' }).click();
    await page.evaluate("addEventListener('copy', () => { globalThis.copied = document.activeElement.value; })");
    await page.keyboard.press('Control+c');
    assert.equal(await page.evaluate('globalThis.copied'), 'over plain HTTP');
    // Browsers ignore the header there, and say so.
    await consolePage.close([/Cross-Origin-Opener-Policy header has been ignored/]);
  });

  it('signs in by an identity provider, and returns to the requested page', async () => {
    const { clientId, issuer } = provider;
    provider.claims = { preferred_username: 'eva' };
    const body = {
      name: 'company',
      issuer: issuer.url,
      audiences: [clientId],
      consoleClientId: clientId,
      userClaim: 'preferred_username',
      createUsers: true,
    };
    (await server.post('/api/v2/identity_providers', body)).is(201);
    const consolePage = await openPage(`${server.url}/console/sql?from=link`);
    const { page } = consolePage;
    const button = page.getByRole('button', { name: 'Continue with company' });
    await button.waitFor();
    await consolePage.checkAccessibility();
    await consolePage.photograph('sign_in_provider');
    await button.click();
    await isSignedInAs(page, 'eva');
    assert.equal(page.url(), `${server.url}/console/sql?from=link`);
    await page.goto(`${server.url}/console/sign_in?code=stolen&state=other`);
    await isSignedInAs(page, 'eva');
    await consolePage.close([/request to another host/]);
    const forged = await openPage(`${server.url}/console/sign_in?code=stolen&state=other`);
    await forged.page.getByText('This sign-in was not begun in this tab').waitFor();
    await forged.close();
  });
});
