// What becomes of a command whose output can no longer be written, because its reader has ended or a disk is full.
import { exitCodes } from './exit_codes.ts';

/** The exit code of a command whose standard output cannot be written; undefined while it can. */
let lostCode: number | undefined;
export const outputLostCode = (): number | undefined => lostCode;

/**
 * Calls `lost` once, when the standard output cannot be written, with the exit code: 141 if a reader such as `head` has ended. Notes that
 * nobody reads end nothing.
 */
export function onOutputLost(lost: (exitCode: number) => void): void {
  process.stderr.on('error', () => undefined);
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (lostCode !== undefined) return;
    const isReaderGone = error.code === 'EPIPE';
    lostCode = isReaderGone ? exitCodes.brokenPipe.code : exitCodes.failed.code;
    if (!isReaderGone) process.stderr.write(`the output cannot be written (${unwritable(error)})\n`);
    // The command may have set another one since.
    process.on('exit', () => {
      process.exitCode = lostCode;
    });
    lost(lostCode);
  });
}

/** Why a file cannot be written, and what to do, for a person. */
export function unwritable({ code, message }: NodeJS.ErrnoException): string {
  switch (code) {
    case 'ENOSPC':
      return 'the disk is full: make room, or choose another place';
    case 'EDQUOT':
      return 'the quota of this user on the disk is used up: make room, or choose another place';
    case 'EACCES':
    case 'EPERM':
      return 'this user may not write there: choose another place';
    case 'EISDIR':
      return 'it is a directory: give the path of a file';
    case 'ENOENT':
      return 'its directory does not exist: create it, or choose another place';
    case 'EROFS':
      return 'the file system is read-only: choose another place';
    default:
      return message;
  }
}
