// The file that a command writes instead of the standard output.
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { CommandError } from '../exit_codes.ts';
import type { Output } from './output.ts';

export interface Target extends Output {
  /** Resolves when everything is in the file. Throws CommandError if it is not. */
  close?(): Promise<void>;
}

/** `path`: a file, which is replaced. */
export function fileOutput(path: string, output: Output): Target {
  const stream = createWriteStream(path);
  let failed: Error | undefined;
  stream.on('error', (error) => {
    failed = error;
  });
  const check = () => {
    if (failed)
      throw new CommandError('failed', `the file ${path} cannot be written: ${failed.message}`, { cause: failed });
  };
  return {
    ...output,
    isTerminal: false,
    async write(text) {
      check();
      if (!stream.write(text)) await Promise.race([once(stream, 'drain'), once(stream, 'close')]);
      check();
    },
    async close() {
      stream.end();
      if (!stream.closed) await once(stream, 'close').catch(() => undefined);
      check();
    },
  };
}
