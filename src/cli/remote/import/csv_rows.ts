// The rows of a table as the CSV that the server loads: null is `\N`, and every text that could be read as something else is in quotes.
import type { TextRows } from '../../../model/import_source.ts';

/** The field `csv` of the load. */
export const csvOptions = { header: true, delimiter: ',', nullText: '\\N', quotedNulls: false } as const;

const nullText = '\\N';
const chunkCharacters = 1024 * 1024;
const needsQuotes = /[",\r\n\\]|^\s|\s$|^$/;

const field = (text: string | null): string =>
  text === null ? nullText : needsQuotes.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

/**
 * The name of a column in the file. A first line of data could be broken by a value with a line break, and names may be any.
 */
export const fileColumn = (position: number): string => `c${position}`;

/** Chunks of about a megabyte. `seen`: is called with each row. */
export async function* csvChunks(
  rows: TextRows,
  columnCount: number,
  seen: (row: readonly (string | null)[]) => void,
): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  let text = `${Array.from({ length: columnCount }, (_, i) => fileColumn(i)).join(',')}\n`;
  for await (const batch of rows) {
    for (const row of batch) {
      seen(row);
      text += `${row.map(field).join(',')}\n`;
      if (text.length < chunkCharacters) continue;
      yield encoder.encode(text);
      text = '';
    }
  }
  yield encoder.encode(text);
}
