// Renders a page of the documentation: Markdown as HTML, with ids of headings as on GitHub, links between the pages, and codes as links to
// their pages.
import { existsSync } from 'node:fs';
import { join, posix } from 'node:path';
import { Marked, type Tokens } from 'marked';
import { escapeHtml, highlighted } from './highlight.ts';
import type { Page } from './page.ts';

export const basePath = '/console/docs/';

export interface Heading {
  readonly id: string;
  readonly text: string;
  readonly depth: number;
}

export interface RenderedPage {
  readonly page: Page;
  readonly title: string;
  readonly headings: readonly Heading[];
  readonly html: string;
  /** Links to a heading of another page, such as `api#retries`: checked when all pages are rendered. */
  readonly links: readonly string[];
}

export interface Surroundings {
  /** Of the project. */
  readonly root: string;
  readonly pageBySource: ReadonlyMap<string, Page>;
  readonly codeNames: ReadonlySet<string>;
}

const plainText = (html: string): string =>
  html
    .replace(/<[^>]*>/g, '')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');

/** As on GitHub, so that a link works in both places. */
const slugOf = (text: string): string =>
  text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_\s-]/gu, '')
    .replace(/\s/g, '-');

export function renderPage(page: Page, { root, pageBySource, codeNames }: Surroundings): RenderedPage {
  const headings: Heading[] = [];
  const links: string[] = [];
  // A link cannot contain another.
  let isInLink = false;
  const withoutLinks = (render: () => string): string => {
    isInLink = true;
    try {
      return render();
    } finally {
      isInLink = false;
    }
  };

  const sourceOf = (file: string) => (file === '' ? page.source : posix.join(posix.dirname(page.source), file));

  /** Undefined: a file of the project that is not a page. */
  function hrefOf(href: string): string | undefined {
    if (/^[a-z]+:/.test(href)) return href;
    const [file = '', anchor] = href.split('#');
    const source = sourceOf(file);
    const target = pageBySource.get(source);
    if (target) {
      if (anchor !== undefined) links.push(`${target.path}#${anchor}`);
      return `${basePath}${target.path}${anchor === undefined ? '' : `#${anchor}`}`;
    }
    if (/^openapi(\.client)?\.json$/.test(source)) return source === 'openapi.json' ? '/openapi.json' : undefined;
    if (!existsSync(join(root, source))) throw new Error(`${page.source} has a link to ${href}, which does not exist`);
    return undefined;
  }

  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }: Tokens.Heading) {
        const html = this.parser.parseInline(tokens);
        const text = plainText(html);
        const slug = slugOf(text);
        const repeated = headings.filter(({ id }) => id.replace(/-\d+$/, '') === slug).length;
        const id = repeated === 0 ? slug : `${slug}-${repeated}`;
        headings.push({ id, text, depth });
        return depth === 1 ? `<h1>${html}</h1>\n` : `<h${depth} id="${id}">${html}</h${depth}>\n`;
      },
      link({ href, tokens }: Tokens.Link) {
        const text = withoutLinks(() => this.parser.parseInline(tokens));
        const target = hrefOf(href);
        if (target === undefined) return text;
        // The name of a file means nothing here.
        const label = text.endsWith('.md') ? pageBySource.get(sourceOf(href.split('#')[0] ?? ''))?.label : undefined;
        return `<a href="${escapeHtml(target)}">${label === undefined ? text : escapeHtml(label)}</a>`;
      },
      codespan({ text }: Tokens.Codespan) {
        const html = `<code>${escapeHtml(text)}</code>`;
        const isOwn = page.path === `codes/${text}`;
        return codeNames.has(text) && !isInLink && !isOwn ? `<a href="${basePath}codes/${text}">${html}</a>` : html;
      },
      code({ text, lang = '' }: Tokens.Code) {
        return `<pre tabindex="0"><code>${highlighted(text, lang === '' ? 'sh' : lang)}</code></pre>\n`;
      },
      image({ href, text }: Tokens.Image) {
        const path = sourceOf(href).replace(/^docs\//, '');
        return `<img src="${basePath}${escapeHtml(path)}" alt="${escapeHtml(text)}" width="1280" height="800" loading="lazy">`;
      },
      table({ header, rows }: Tokens.Table) {
        const line = (cells: readonly Tokens.TableCell[], name: 'th' | 'td') =>
          `<tr>${cells.map((cell) => cellHtml(this.parser.parseInline(cell.tokens), name)).join('')}</tr>`;
        const head = header.some(({ text }) => text !== '') ? `<thead>${line(header, 'th')}</thead>` : '';
        const body = rows.map((row) => line(row, 'td')).join('\n');
        return `<div class="table" tabindex="0"><table>${head}<tbody>\n${body}\n</tbody></table></div>\n`;
      },
    },
  });
  const html = marked.parse(page.markdown, { async: false });
  const title = headings.find(({ depth }) => depth === 1)?.text ?? page.label;
  return { page, title, headings: headings.filter(({ depth }) => depth > 1), html, links };
}

/** An empty cell in a header is no header. */
const cellHtml = (html: string, name: 'th' | 'td'): string =>
  name === 'th' && html === '' ? '<td></td>' : `<${name}${name === 'th' ? ' scope="col"' : ''}>${html}</${name}>`;
