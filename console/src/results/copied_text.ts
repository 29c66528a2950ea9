// Rows as text to paste elsewhere: CSV, tab-separated, Markdown, JSON and INSERT statements.
import type { Column, Value } from '../../../src/client/index.ts';
import type { CopyFormat } from './messages.ts';
import { jsonOf, literalOf, quoteName, textOf } from './value_text.ts';

type Rows = readonly (readonly Value[])[];

const cellOf = (value: Value): string => (value === null ? '' : textOf(value));
const csvCell = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const tsvCell = (text: string): string => text.replaceAll(/[\t\r\n]+/g, ' ');
const markdownCell = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('|', '\\|').replaceAll(/\r?\n/g, '<br>').replaceAll('<', '&lt;');

const writers: Record<CopyFormat, (columns: readonly Column[], rows: Rows) => string> = {
  csv: (columns, rows) =>
    [columns.map(({ name }) => csvCell(name)), ...rows.map((row) => row.map((value) => csvCell(cellOf(value))))]
      .map((cells) => `${cells.join(',')}\n`)
      .join(''),
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
  json: (columns, rows) => {
    const names = columns.map(({ name }) => JSON.stringify(name));
    const objects = rows.map((row) => `  {${row.map((value, i) => `${names[i]}: ${jsonOf(value)}`).join(', ')}}`);
    return `[\n${objects.join(',\n')}\n]\n`;
  },
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
