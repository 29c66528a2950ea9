// Where a command writes: results to the standard output, waiting for the reader; what is for a person to the standard error.
import { once } from 'node:events';
import { styleText } from 'node:util';
import { outputLostCode } from '../../standard_streams.ts';

export interface Output {
  /**
   * Resolves when more can be written, so that a slow reader holds the command back instead of filling its memory. Rejects when the output
   * can no longer be written (standard_streams.ts).
   */
  write(text: string | Uint8Array): Promise<void>;
  /** A line for a person, on the standard error; nothing with `--quiet`. */
  note(text: string): void;
  /** Whether the standard output is a terminal. */
  readonly isTerminal: boolean;
  /** Whether the standard error is one: bars and questions are shown only there. */
  readonly isInteractive: boolean;
  /** The characters of a line of the terminal. */
  readonly columns: number;
  readonly style: (format: Parameters<typeof styleText>[0], text: string) => string;
}

const columnsDefault = 120;

export function standardOutput({ isQuiet = false } = {}): Output {
  const { stdout, stderr } = process;
  return {
    async write(text) {
      if (outputLostCode() !== undefined) throw new Error('the output cannot be written');
      if (!stdout.write(text)) await once(stdout, 'drain');
    },
    note(text) {
      if (!isQuiet) stderr.write(`${text}\n`);
    },
    isTerminal: stdout.isTTY === true,
    isInteractive: stderr.isTTY === true && !isQuiet,
    get columns() {
      return stdout.columns || columnsDefault;
    },
    style: (format, text) => (stdout.isTTY ? styleText(format, text, { stream: stdout }) : text),
  };
}
