// Writes the documentation as static pages into a directory of the built console: the written pages of docs/, the generated reference, a page
// for each code, and the index of the search. Fails on links that lead nowhere.
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { codeNames, codePages } from './code_pages.ts';
import { escapeHtml } from './highlight.ts';
import type { Page, PageGroup } from './page.ts';
import { referenceOverview, referencePages } from './reference.ts';
import { basePath, type RenderedPage, renderPage } from './rendered_page.ts';

/** Label and source of the written pages. */
const writtenGroups: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  'First steps': [
    ['Introduction', 'README.md'],
    ['Tour of the console', 'docs/tour.md'],
    ['Concepts', 'docs/concepts.md'],
  ],
  'For programs': [
    ['The API', 'docs/api.md'],
    ['TypeScript', 'docs/client.md'],
    ['Python', 'docs/python.md'],
  ],
  'Command line': [
    ['Commands', 'docs/cli.md'],
    ['Cookbook', 'docs/cookbook.md'],
    ['Declarations', 'docs/apply.md'],
  ],
  'The standard': [
    ['The REST standard', 'docs/rest_standard.md'],
    ['Rules for documents', 'docs/lint_rules.md'],
    ['Checking a service', 'docs/conform.md'],
  ],
  SQL: [
    ['SQL on DuckDB', 'docs/duckdb.md'],
    ['Warehouses on ClickHouse', 'docs/clickhouse.md'],
    ['SQL on ClickHouse', 'docs/clickhouse_sql.md'],
    ['Limits of a statement', 'docs/statement_limits.md'],
    ['Consistency', 'docs/consistency.md'],
  ],
  Operations: [
    ['Overview', 'docs/operations.md'],
    ['Engines', 'docs/engines.md'],
    ['Configuration', 'docs/configuration.md'],
    ['PostgreSQL', 'docs/postgresql.md'],
    ['Security', 'docs/security.md'],
    ['Backup', 'docs/backup.md'],
    ['Upgrade', 'docs/upgrade.md'],
    ['Performance', 'docs/performance.md'],
    ['Versions of the API', 'docs/versioning.md'],
  ],
};

/** For those who work on the project. */
const unpublished: readonly string[] = ['docs/releasing.md'];

function pageGroups(root: string): PageGroup[] {
  const listed = Object.values(writtenGroups).flatMap((pages) => pages.map(([, source]) => source));
  for (const source of globSync('docs/*.md', { cwd: root }))
    if (![...listed, ...unpublished, 'docs/codes.md'].includes(source))
      throw new Error(`${source} is in no group of pages`);
  const written = (label: string, source: string): Page => ({
    path: source === 'README.md' ? '' : source.replace(/^docs\/(.*)\.md$/, '$1'),
    label,
    source,
    markdown: readFileSync(join(root, source), 'utf8'),
  });
  const commandPages = globSync('docs/commands/*.md', { cwd: root })
    .sort()
    .map((source) => written(basename(source, '.md'), source));
  return [
    ...Object.entries(writtenGroups).map(([name, pages]) => ({
      name,
      pages: pages.map(([label, source]) => written(label, source)),
      ...(name === 'Command line' ? { unlisted: commandPages } : {}),
    })),
    {
      name: 'Reference',
      pages: [referenceOverview(), written('Codes', 'docs/codes.md'), ...referencePages()],
      unlisted: codePages(),
    },
  ];
}

const notFound: Page = {
  path: 'not_found',
  label: 'Not found',
  source: 'docs/not_found.md',
  markdown: '# There is no page at this address\n\nSearch for a word, or start with the [introduction](../README.md).',
};

/** `directory`: of the built console, where Vite has written the template of the pages. Images are copied from docs/images/. */
export function writeDocumentation(root: string, directory: string): void {
  const target = join(directory, 'docs');
  const templateFile = join(target, 'page.html');
  const template = readFileSync(templateFile, 'utf8');
  rmSync(templateFile);
  const groups = pageGroups(root);
  const grouped = groups.flatMap(({ name, pages, unlisted = [] }) =>
    [...pages, ...unlisted].map((page) => ({ name, page })),
  );
  const pageBySource = new Map(grouped.map(({ page }) => [page.source, page]));
  const surroundings = { root, pageBySource, codeNames: new Set<string>(codeNames) };
  const rendered = grouped.map(({ name, page }) => ({ group: name, ...renderPage(page, surroundings) }));
  checkAnchors(rendered);
  const search = rendered.map(({ page, title, group, headings }) => ({
    path: page.path,
    title,
    group,
    headings: headings.map(({ id, text }) => [id, text]),
  }));
  for (const one of [...rendered, { group: '', ...renderPage(notFound, surroundings) }]) {
    const file = join(target, `${one.page.path === '' ? 'index' : one.page.path}.html`);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, filledIn(template, one, groups));
  }
  writeFileSync(join(target, 'search.json'), JSON.stringify(search));
  const images = join(root, 'docs/images');
  if (existsSync(images)) cpSync(images, join(target, 'images'), { recursive: true });
}

function checkAnchors(pages: readonly RenderedPage[]): void {
  const known = new Set(pages.flatMap(({ page, headings }) => headings.map(({ id }) => `${page.path}#${id}`)));
  for (const { page, links } of pages)
    for (const link of links)
      if (!known.has(link)) throw new Error(`${page.source} has a link to ${link}, a heading that does not exist`);
}

function filledIn(
  template: string,
  rendered: RenderedPage & { readonly group: string },
  groups: readonly PageGroup[],
): string {
  const { page, title, html, headings } = rendered;
  const parts: Readonly<Record<string, string>> = {
    title: escapeHtml(page.path === '' ? `${title} documentation` : `${title} · Tabularium`),
    sidebar: groups.map((group) => groupHtml(group, page, rendered.group)).join('\n'),
    content: html,
    contents: contentsHtml(headings),
  };
  return template.replace(/<!-- (title|sidebar|content|contents) -->/g, (_, name: string) => parts[name] as string);
}

function groupHtml({ name, pages }: PageGroup, current: Page, currentGroup: string): string {
  const items = pages.map(({ path, label }) => {
    const mark = path === current.path ? ' aria-current="page"' : '';
    return `<li><a href="${basePath}${path}"${mark}>${escapeHtml(label)}</a></li>`;
  });
  // The reference is long.
  const isOpen = name !== 'Reference' || name === currentGroup;
  return `<details${isOpen ? ' open' : ''}><summary>${escapeHtml(name)}</summary><ul>${items.join('')}</ul></details>`;
}

function contentsHtml(headings: RenderedPage['headings']): string {
  const items = headings.filter(({ depth }) => depth === 2);
  if (items.length < 2) return '';
  const links = items.map(({ id, text }) => `<li><a href="#${id}">${escapeHtml(text)}</a></li>`);
  return `<nav class="contents" aria-label="On this page"><h2>On this page</h2><ul>${links.join('')}</ul></nav>`;
}
