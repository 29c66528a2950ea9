// Rows of a CSV file of any size that a seed determines, and the sums by which they are recognized.
import { Random } from '../../../random.ts';

export interface RowSums {
  rows: number;
  /** Of the column `amount`. */
  amount: number;
}

const rowsAtOnce = 10_000;
const words = ['anchor', 'basket', 'copper', 'döner', 'elbow, left', 'field "north"', 'ginger', '漢字'];
const quoted = (text: string) => (/[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
export const header = 'id,amount,label,note\n';
const note = 'x'.repeat(60);

/** At least `bytes` of rows: `id` counts from 0, `amount` is random. `sums` counts what was given. */
export async function* numberedRows(seed: number, bytes: number, sums: RowSums): AsyncGenerator<Uint8Array> {
  const random = new Random(seed);
  const labels = words.map(quoted);
  yield Buffer.from(header);
  for (let written = header.length; written < bytes; ) {
    let text = '';
    for (let n = 0; n < rowsAtOnce; n++) {
      const amount = random.below(1_000_000);
      text += `${sums.rows++},${amount},${labels[amount % labels.length]},${note}\n`;
      sums.amount += amount;
    }
    const chunk = Buffer.from(text);
    written += chunk.length;
    yield chunk;
  }
}

/** Adds what is exported as CSV with the columns `id,amount`, in any pieces. */
export function sumsOfCsv(): { readonly sums: RowSums; add(chunk: Buffer): void } {
  const sums: RowSums = { rows: -1, amount: 0 };
  let rest = '';
  return {
    sums,
    add(chunk) {
      const lines = (rest + chunk.toString('latin1')).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        if (sums.rows++ >= 0) sums.amount += Number(line.slice(line.indexOf(',') + 1));
      }
    },
  };
}
