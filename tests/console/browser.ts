// Pages of the console in Debian's Chromium, on the test's own server: signed in, watched for errors of scripts and of the content
// security policy, checked with axe, and photographed. Screenshots are written to tests/output/console/ for review.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { afterEach } from 'node:test';
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Locator,
  type Page,
} from 'playwright-core';
import { deadlineMs, eventually } from '../deadline.ts';
import type { TestServer } from '../server.ts';

const root = resolve(import.meta.dirname, '../..');
const executable = '/usr/bin/chromium';
const outDirectory = join(root, 'tests/output/console');
/** The host of this machine by another name than localhost. */
export const otherHost = 'warehouse.test';
const args = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--process-per-site',
  // A page of another host over plain HTTP is no secure context, and lacks some functions of the browser.
  `--host-resolver-rules=MAP ${otherHost} 127.0.0.1`,
];
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** The reason why suites of the console are skipped; false if they run, as always under CI. */
export const noBrowser: string | false = existsSync(executable) || process.env.CI ? false : `there is no ${executable}`;

/** Builds the console unless it is built; the first file of a run does. */
export function buildConsole(): void {
  execFileSync(process.execPath, [join(root, 'scripts/build_console.ts')], { stdio: ['ignore', 2, 2] });
}

export async function launchBrowser(): Promise<Browser> {
  buildConsole();
  return chromium.launch({ executablePath: executable, args, timeout: deadlineMs(30_000) });
}

export const desktop: BrowserContextOptions = { viewport: { width: 1280, height: 800 } };
export const phone: BrowserContextOptions = {
  viewport: { width: 390, height: 844 },
  hasTouch: true,
  isMobile: true,
  deviceScaleFactor: 2,
};

interface OpenOptions extends BrowserContextOptions {
  /** Below /console/. */
  readonly path?: string;
  /** By default that of the server's own user; null: not signed in. */
  readonly token?: string | null;
}

/** Reported by `reportViolations` instead, with the element. */
const policyMessage = /violates the following Content Security Policy/;
/** Where text is replaced in an editable element, Chromium itself adds style attributes, which the policy refuses: they do no harm. */
const reportViolations = `document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI, target }) => {
  const element = target instanceof Element ? target : undefined;
  if (violatedDirective === 'style-src-attr' && element?.closest('.cm-content')) return;
  reportViolation('policy: ' + violatedDirective + ' ' + blockedURI + ' ' + (element?.outerHTML ?? '').slice(0, 300));
});`;

/** Contexts with the usual options, by browser and origin: each is used by one page after the other. */
const usualContexts = new WeakMap<Browser, Map<string, UsualContext>>();

/**
 * A page that stays open retains the process of the origin (`--process-per-site`), and with it the compiled scripts: half of the cost of
 * opening a page. What a page stores is deleted before the next one.
 */
class UsualContext {
  readonly context: BrowserContext;
  readonly #keeper: Page;
  isFree = false;

  private constructor(context: BrowserContext, keeper: Page) {
    this.context = context;
    this.#keeper = keeper;
  }

  static async of(browser: Browser, origin: string): Promise<UsualContext> {
    const contexts = usualContexts.get(browser) ?? new Map<string, UsualContext>();
    usualContexts.set(browser, contexts);
    const known = contexts.get(origin);
    if (known?.isFree) {
      // At once: pages that are opened together have contexts of their own.
      known.isFree = false;
      return known;
    }
    const context = await newContext(browser, {});
    const keeper = await context.newPage();
    await keeper.goto(`${origin}/livez`);
    const created = new UsualContext(context, keeper);
    contexts.set(origin, created);
    return created;
  }

  async end(): Promise<void> {
    const pages = this.context.pages().filter((page) => page !== this.#keeper);
    for (const page of pages) for (const event of ['console', 'pageerror'] as const) page.removeAllListeners(event);
    // What a page sends at its last moment, such as a draft, would reach the next test.
    await this.context.setOffline(true);
    for (const page of pages) await page.close();
    await this.context.setOffline(false);
    await this.context.clearCookies();
    await this.#keeper.evaluate(() => localStorage.clear());
    this.isFree = true;
  }
}

const newContext = (browser: Browser, options: BrowserContextOptions): Promise<BrowserContext> =>
  browser.newContext({ ...desktop, reducedMotion: 'reduce', ...options });

const openPages = new Set<ConsolePage>();

// The error of a wait says what was not shown; this says what was.
afterEach(async (t) => {
  for (const consolePage of openPages) {
    openPages.delete(consolePage);
    if ('passed' in t && t.passed) continue;
    const { page, problems } = consolePage;
    const text = page.isClosed() ? 'closed' : await page.locator('body').innerText();
    console.error(`${t.name}: ${page.url()}\n${[...problems, text].join('\n')}`);
  }
});

/** A page without anything that another one stored, and what went wrong in it. */
export class ConsolePage {
  readonly page: Page;
  readonly problems: string[] = [];
  #usual: UsualContext | undefined;

  constructor(page: Page, origin: string) {
    this.page = page;
    page.setDefaultTimeout(deadlineMs(10_000));
    page.on('pageerror', (error) => this.problems.push(`script: ${error.message}`));
    page.on('console', (message) => {
      if (message.type() === 'error' && !policyMessage.test(message.text()))
        this.problems.push(`console: ${message.text()} (${message.location().url}:${message.location().lineNumber})`);
    });
    page.on('request', (request) => {
      const url = request.url();
      if (!url.startsWith(origin) && !/^(data|blob):/.test(url)) this.problems.push(`request to another host: ${url}`);
    });
  }

  static async open(browser: Browser, server: TestServer, options: OpenOptions = {}): Promise<ConsolePage> {
    const { path = '', token = server.token, ...contextOptions } = options;
    const usual = Object.keys(contextOptions).length === 0 ? await UsualContext.of(browser, server.url) : undefined;
    const context = usual?.context ?? (await newContext(browser, contextOptions));
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.url });
    const consolePage = new ConsolePage(await context.newPage(), server.url);
    consolePage.#usual = usual;
    openPages.add(consolePage);
    await consolePage.page.exposeFunction(
      'reportViolation',
      (violation: string) => void consolePage.problems.push(violation),
    );
    await consolePage.page.addInitScript(reportViolations);
    await consolePage.page.goto(`${server.url}/console/${path}`);
    await consolePage.page.getByRole('main').waitFor();
    if (token === null) return consolePage;
    const drafts = path.startsWith('sql') ? consolePage.#drafts() : undefined;
    await consolePage.signIn(token);
    await drafts;
    return consolePage;
  }

  /** Until the saved drafts are shown: the first of them replaces an editor without text, and what is being entered into it at that moment. */
  async #drafts(): Promise<void> {
    const response = await this.page.waitForResponse((one) => new URL(one.url()).pathname === '/api/v2/drafts');
    await response.finished();
    await this.page.evaluate('new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown)))');
  }

  async signIn(token: string): Promise<void> {
    await this.page.getByLabel('Access token').fill(token);
    await this.page.getByRole('button', { name: 'Sign in' }).click();
    // The rooms are no sign of it: an open dialog hides them.
    await this.page.getByRole('heading', { name: 'Sign in to Tabularium' }).waitFor({ state: 'detached' });
  }

  /**
   * Until the page shows that the sign-in has expired, which a request that was under way or the next save of a draft may show before the
   * click. @returns whether the click was done.
   */
  async clickUntilExpired(target: Locator): Promise<boolean> {
    let isClicked = false;
    await eventually('the page shows that the sign-in has expired', async () => {
      if (await this.page.getByText('Your sign-in has expired').isVisible()) return true;
      isClicked ||= await target.click({ timeout: deadlineMs(500) }).then(
        () => true,
        () => false,
      );
      return false;
    });
    return isClicked;
  }

  /** `name`: of the file, without its extension. */
  async photograph(name: string): Promise<void> {
    mkdirSync(outDirectory, { recursive: true });
    await this.page.screenshot({ path: join(outDirectory, `${name}.png`) });
  }

  /** Asserts that axe finds no violation of WCAG 2.2 AA and of its own best practices. */
  async checkAccessibility(): Promise<void> {
    // Not as a script element: the content security policy would refuse it.
    await this.page.evaluate(axe);
    const accessibility = await this.page.evaluate(async () => {
      const run = (globalThis as unknown as { axe: { run(): Promise<{ violations: readonly AxeViolation[] }> } }).axe;
      const { violations } = await run.run();
      return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(' ')}`);
    });
    assert.deepEqual(accessibility, []);
  }

  /** `expected`: problems that the test caused, such as the message of the browser for a 401. */
  async close(expected: readonly RegExp[] = []): Promise<void> {
    await (this.#usual?.end() ?? this.page.context().close());
    assert.deepEqual(
      this.problems.filter((problem) => !expected.some((pattern) => pattern.test(problem))),
      [],
    );
  }
}

interface AxeViolation {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly html: string }[];
}
