// The rows of a result in each format of `--format`, written as they come: memory does not grow with the number of rows.
import stringWidth from 'string-width';
import type { Column } from '../../../client/query.ts';
import type { Value } from '../../../client/values.ts';
import { jsonText, valueText } from './value_text.ts';

export const rowFormats = ['table', 'json', 'ndjson', 'csv', 'markdown', 'vertical'] as const;
export type RowFormat = (typeof rowFormats)[number];

export interface RowWriter {
  /** The text of the next rows; may be empty. */
  rows(rows: readonly (readonly Value[])[]): string;
  /** The text after the last row. `rowCount`: of all rows. */
  end(rowCount: number): string;
}

export interface RowFormatOptions {
  /** The characters of a line, of a terminal; values are cut so that a line of a table fits. Absent: nothing is cut. */
  readonly width?: number | undefined;
}

/** How many rows determine the widths of the columns of a table. */
const measuredRowsMax = 1000;
const cellCharactersMax = 60;

export const writerOf = (format: RowFormat, columns: readonly Column[], options: RowFormatOptions = {}): RowWriter =>
  writers[format](columns, options);

const writers: Readonly<Record<RowFormat, (columns: readonly Column[], options: RowFormatOptions) => RowWriter>> = {
  table: (columns, { width }) => new TableWriter(columns, width),
  markdown: markdownWriter,
  vertical: verticalWriter,
  csv: csvWriter,
  json: jsonWriter,
  ndjson(columns) {
    const objectOf = objectTextOf(columns);
    return { rows: (rows) => rows.map((row) => `${objectOf(row)}\n`).join(''), end: () => '' };
  },
};

function jsonWriter(columns: readonly Column[]): RowWriter {
  const objectOf = objectTextOf(columns);
  let isFirst = true;
  return {
    rows(rows) {
      const lines = rows.map((row) => {
        const lead = isFirst ? '[\n' : ',\n';
        isFirst = false;
        return `${lead}${objectOf(row)}`;
      });
      return lines.join('');
    },
    end: () => (isFirst ? '[]\n' : '\n]\n'),
  };
}

/** Columns of equal names get a number, as objects have each name once. */
function objectTextOf(columns: readonly Column[]): (row: readonly Value[]) => string {
  const names: string[] = [];
  for (const { name } of columns) {
    let unique = name;
    for (let number = 2; names.includes(unique); number++) unique = `${name}_${number}`;
    names.push(unique);
  }
  const keys = names.map((name) => JSON.stringify(name));
  const types = columns.map(({ type }) => type);
  return (row) => `{${row.map((value, i) => `${keys[i]}:${jsonText(value, types[i] ?? '')}`).join(',')}}`;
}

/** RFC 4180. Null is empty, and an empty text is quoted. */
function csvWriter(columns: readonly Column[]): RowWriter {
  const field = (text: string) => (text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const line = (fields: readonly string[]) => `${fields.join(',')}\r\n`;
  let head = line(columns.map(({ name }) => field(name)));
  return {
    rows(rows) {
      const text = rows
        .map((row) =>
          line(row.map((value, i) => (value === null ? '' : field(valueText(value, columns[i]?.type ?? ''))))),
        )
        .join('');
      const before = head;
      head = '';
      return before + text;
    },
    end: () => head,
  };
}

function markdownWriter(columns: readonly Column[]): RowWriter {
  const cell = (text: string) => text.replaceAll('\\', '\\\\').replaceAll('|', '\\|').replaceAll(/\r?\n/g, '<br>');
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |\n`;
  const rules = columns.map(({ type }) => (isNumeric(type) ? '--:' : '---'));
  let head = line(columns.map(({ name }) => cell(name))) + line(rules);
  return {
    rows(rows) {
      const text = rows
        .map((row) => line(row.map((value, i) => cell(shownText(value, columns[i]?.type ?? '')))))
        .join('');
      const before = head;
      head = '';
      return before + text;
    },
    end: () => head,
  };
}

function verticalWriter(columns: readonly Column[]): RowWriter {
  const width = Math.max(0, ...columns.map(({ name }) => stringWidth(oneLine(name))));
  let number = 0;
  return {
    rows: (rows) =>
      rows
        .map((row) => {
          number++;
          const lines = row.map(
            (value, i) =>
              `${padded(oneLine(columns[i]?.name ?? ''), width)}  ${oneLine(shownText(value, columns[i]?.type ?? ''))}\n`,
          );
          return `row ${number}\n${lines.join('')}`;
        })
        .join(''),
    end: () => '',
  };
}

/** Widths are those of the first rows. Where later values are wider, columns grow from there on, as far as a line has room. */
class TableWriter implements RowWriter {
  readonly #columns: readonly Column[];
  readonly #width: number | undefined;
  #waiting: string[][] = [];
  /** Of the widest values so far. */
  readonly #natural: number[] = [];
  #widths: number[] | undefined;

  constructor(columns: readonly Column[], width: number | undefined) {
    this.#columns = columns;
    this.#width = width;
  }

  rows(rows: readonly (readonly Value[])[]): string {
    const lines = rows.map((row) => row.map((value, i) => oneLine(shownText(value, this.#columns[i]?.type ?? ''))));
    if (this.#widths) {
      this.#measure(lines);
      return lines.map((line) => this.#line(line)).join('');
    }
    for (const line of lines) this.#waiting.push(line);
    return this.#waiting.length < measuredRowsMax ? '' : this.#head();
  }

  end(rowCount: number): string {
    const rest = this.#widths ? '' : this.#head();
    return `${rest}(${rowCount} ${rowCount === 1 ? 'row' : 'rows'})\n`;
  }

  #head(): string {
    const names = this.#columns.map(({ name }) => oneLine(name));
    const widths = this.#measure([names, ...this.#waiting]);
    const rule = `${widths.map((width) => '─'.repeat(width)).join('─┼─')}\n`;
    const text = this.#line(names) + rule + this.#waiting.map((line) => this.#line(line)).join('');
    this.#waiting = [];
    return text;
  }

  /** @returns the widths of the columns with these lines. */
  #measure(lines: readonly (readonly string[])[]): readonly number[] {
    let hasGrown = this.#widths === undefined;
    for (const line of lines)
      for (const [i, cell] of line.entries()) {
        const known = this.#natural[i] ?? 0;
        // A character takes at most two columns.
        if (cell.length * 2 <= known) continue;
        const width = stringWidth(cell);
        if (width <= known) continue;
        this.#natural[i] = width;
        hasGrown = true;
      }
    if (hasGrown || !this.#widths) this.#widths = fitted(this.#natural, this.#width);
    return this.#widths;
  }

  #line(cells: readonly string[]): string {
    const text = cells.map((cell, i) => {
      const width = this.#widths?.[i] ?? 0;
      return isNumeric(this.#columns[i]?.type ?? '')
        ? padded(cut(cell, width), width, 'start')
        : padded(cut(cell, width), width);
    });
    return `${text.join(' │ ').trimEnd()}\n`;
  }
}

/** Widths of columns so that a line fits, if a width is given: the widest columns give way first. */
function fitted(natural: readonly number[], width: number | undefined): number[] {
  if (width === undefined) return [...natural];
  const separators = 3 * Math.max(0, natural.length - 1);
  const room = Math.max(natural.length * 8, width - separators);
  const widths = natural.map((each) => Math.min(each, Math.max(cellCharactersMax, 1)));
  for (let over = sum(widths) - room; over > 0; over = sum(widths) - room) {
    const widest = widths.indexOf(Math.max(...widths));
    if ((widths[widest] ?? 0) <= 8) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return widths;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);

const isNumeric = (type: string): boolean => /^(TINYINT|SMALLINT|INT|BIGINT|LARGEINT|FLOAT|DOUBLE|DECIMAL)/.test(type);

const shownText = (value: Value, type: string): string => (value === null ? 'null' : valueText(value, type));

/** Control characters of a value must not reach a terminal. */
const oneLine = (text: string): string =>
  text.replaceAll(
    /\p{Cc}/gu,
    (character) => controlNames[character] ?? `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
const controlNames: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function padded(text: string, width: number, side: 'start' | 'end' = 'end'): string {
  const space = ' '.repeat(Math.max(0, width - stringWidth(text)));
  return side === 'start' ? space + text : text + space;
}

const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' });

function cut(text: string, width: number): string {
  if (stringWidth(text) <= width) return text;
  let kept = '';
  for (const { segment } of graphemes.segment(text)) {
    if (stringWidth(kept + segment) > width - 1) break;
    kept += segment;
  }
  return `${kept}…`;
}
