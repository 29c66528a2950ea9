// The file that a command writes instead of the standard output. It gets its name when it is complete: a file that existed before is kept until then.
import { once } from 'node:events';
import { createWriteStream, realpathSync, renameSync, rmSync, statSync } from 'node:fs';
import { CommandError } from '../../exit_codes.ts';
import { unwritable } from '../../standard_streams.ts';
import type { Output } from './output.ts';

/** Where a file is written, and its name at the end. A device or a named pipe is written itself. */
interface Place {
  readonly written: string;
  readonly final: string;
  readonly mode: number;
}

const modeDefault = 0o666;

function placeOf(path: string): Place {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats && !stats.isFile()) return { written: path, final: path, mode: modeDefault };
  const final = stats ? realpathSync(path) : path;
  return { written: `${final}.${process.pid}.partial`, final, mode: stats?.mode ?? modeDefault };
}

/** `path`: a file, which is replaced when `write` resolves. Throws CommandError if it cannot be written. */
export async function writeFileOutput(
  path: string,
  output: Output,
  write: (target: Output) => Promise<void>,
): Promise<void> {
  const failedWith = (error: unknown) =>
    new CommandError('failed', `the file ${path} cannot be written (${unwritable(error as NodeJS.ErrnoException)})`, {
      cause: error,
    });
  let place: Place;
  try {
    place = placeOf(path);
  } catch (error) {
    throw failedWith(error);
  }
  const { written, final, mode } = place;
  const stream = createWriteStream(written, { mode });
  let failed: Error | undefined;
  stream.on('error', (error) => {
    failed = error;
  });
  const check = () => {
    if (failed) throw failedWith(failed);
  };
  const target: Output = {
    ...output,
    isTerminal: false,
    async write(text) {
      check();
      await new Promise<void>((done) => {
        if (stream.write(text, () => done())) done();
      });
      check();
    },
  };
  try {
    await write(target);
    stream.end();
    if (!stream.closed) await once(stream, 'close').catch(() => undefined);
    check();
    if (written !== final) renameSync(written, final);
  } catch (error) {
    stream.destroy();
    if (!stream.closed) await once(stream, 'close').catch(() => undefined);
    if (written !== final) rmSync(written, { force: true });
    throw error;
  }
}
