// Rows as text to paste elsewhere (CSV, tab-separated, Markdown, JSON and INSERT statements) and as files to download.
import type { Column, Value } from '../../../../src/client/index.ts';
import { jsonOf, literalOf, quoteName, textOf } from '../grid/value_text.ts';
import type { CopyFormat, FileFormat } from './messages.ts';

type Rows = readonly (readonly Value[])[];

const cellOf = (value: Value): string => (value === null ? '' : textOf(value));
const csvCell = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const tsvCell = (text: string): string => text.replaceAll(/[\t\r\n]+/g, ' ');
const markdownCell = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('|', '\\|').replaceAll(/\r?\n/g, '<br>').replaceAll('<', '&lt;');

const csvHeader = (columns: readonly Column[]): string => `${columns.map(({ name }) => csvCell(name)).join(',')}\n`;
const csvRows = (rows: Rows): string =>
  rows.map((row) => `${row.map((value) => csvCell(cellOf(value))).join(',')}\n`).join('');

const jsonObjects = (columns: readonly Column[], rows: Rows): readonly string[] => {
  const names = columns.map(({ name }) => JSON.stringify(name));
  return rows.map((row) => `{${row.map((value, i) => `${names[i]}: ${jsonOf(value)}`).join(', ')}}`);
};

const writers: Record<CopyFormat, (columns: readonly Column[], rows: Rows) => string> = {
  csv: (columns, rows) => csvHeader(columns) + csvRows(rows),
  tsv: (columns, rows) =>
    [columns.map(({ name }) => tsvCell(name)), ...rows.map((row) => row.map((value) => tsvCell(cellOf(value))))]
      .map((cells) => `${cells.join('\t')}\n`)
      .join(''),
  markdown: (columns, rows) =>
    [
      columns.map(({ name }) => markdownCell(name)),
      columns.map(() => '---'),
      ...rows.map((row) => row.map((value) => markdownCell(value === null ? 'NULL' : textOf(value)))),
    ]
      .map((cells) => `| ${cells.join(' | ')} |\n`)
      .join(''),
  json: (columns, rows) =>
    `[\n${jsonObjects(columns, rows)
      .map((object) => `  ${object}`)
      .join(',\n')}\n]\n`,
  insert: (columns, rows) => {
    if (rows.length === 0) return '';
    const names = columns.map(({ name }) => quoteName(name)).join(', ');
    const tuples = rows.map(
      (row) => `  (${row.map((value, i) => literalOf(value, columns[i]?.type ?? '')).join(', ')})`,
    );
    return `INSERT INTO table_name (${names}) VALUES\n${tuples.join(',\n')};\n`;
  },
};

export const copiedText = (format: CopyFormat, columns: readonly Column[], rows: Rows): string =>
  writers[format](columns, rows);

/** A file with all rows, which the browser may hold on disk. */
export async function fileOf(
  format: FileFormat,
  columns: readonly Column[],
  pages: AsyncIterable<Rows>,
): Promise<Blob> {
  const parts: (string | Blob)[] = format === 'csv' ? [csvHeader(columns)] : [];
  for await (const rows of pages)
    parts.push(
      new Blob([
        format === 'csv'
          ? csvRows(rows)
          : jsonObjects(columns, rows)
              .map((line) => `${line}\n`)
              .join(''),
      ]),
    );
  return new Blob(parts, { type: format === 'csv' ? 'text/csv' : 'application/x-ndjson' });
}
