// A page of the documentation before it is rendered, and how its Markdown is written by programs.

export interface Page {
  /** Below /console/docs/, without extension; empty: the first page. */
  readonly path: string;
  /** In the sidebar; the page's own title is its heading. */
  readonly label: string;
  readonly markdown: string;
  /** The file that the links in the text are relative to, from the root of the project. */
  readonly source: string;
}

/** The pages of a group are listed below its name in the sidebar, unless they are found through another page. */
export interface PageGroup {
  readonly name: string;
  readonly pages: readonly Page[];
  readonly unlisted?: readonly Page[];
}

export const code = (text: string): string => `\`${text}\``;
export const fence = (language: string, text: string): string => `\`\`\`${language}\n${text}\n\`\`\``;
export const pretty = (value: unknown): string => JSON.stringify(value, null, 2);

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(' | ')} |`;
  return [line(header), `|${'---|'.repeat(header.length)}`, ...rows.map(line)].join('\n');
}
