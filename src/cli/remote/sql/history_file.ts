// The statements of earlier interactive sessions, in a file that only the user can read: they may contain values. A statement that could
// contain a secret is not written, nor is one that begins with a space, as in a shell.
import { appendFileSync, chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { tokensOf } from '../../../client/statements.ts';

export const historyLinesMax = 1000;
const entryCharactersMax = 100_000;
const secret =
  /\b(?:identified|\w*password|passwd|\w*secret\w*|\w*token|api_?key|access_?key\w*|credentials?)\b|:\/\/[^/\s'"]*:[^/\s'"]*@/i;

export class HistoryFile {
  readonly #path: string;
  #isUsable = true;

  constructor(path: string) {
    this.#path = path;
  }

  /** The newest first, as readline takes them. The file loses what is older. */
  lines(): string[] {
    try {
      if (!existsSync(this.#path)) return [];
      const all = readFileSync(this.#path, 'utf8')
        .split('\n')
        .filter((line) => line !== '');
      const latest = all.slice(-historyLinesMax);
      if (all.length > 2 * historyLinesMax) writeFileSync(this.#path, `${latest.join('\n')}\n`, { mode: 0o600 });
      return latest.reverse();
    } catch {
      return [];
    }
  }

  /** @returns a note for the user, the first time that it cannot be written. */
  add(text: string): string | undefined {
    if (!this.#isUsable || text.startsWith(' ') || secret.test(text) || text.length > entryCharactersMax)
      return undefined;
    try {
      appendFileSync(this.#path, `${oneLine(text) ?? text}\n`, { mode: 0o600 });
      // An earlier file, or one that somebody else has created, may have another mode.
      chmodSync(this.#path, 0o600);
      return undefined;
    } catch (error) {
      this.#isUsable = false;
      const { code = '' } = error as NodeJS.ErrnoException;
      return `the history is not stored: ${this.#path} cannot be written (${code})`;
    }
  }
}

/** The same statement on one line; undefined if a text or a name in it contains the end of a line. */
export function oneLine(sql: string): string | undefined {
  const parts = tokensOf(sql).map(({ kind, from, to }) => {
    const token = sql.slice(from, to);
    if (kind === 'space') return token.includes('\n') ? ' ' : token;
    if (kind === 'comment' && token.startsWith('--')) return `/*${withoutBounds(token.slice(2).trimEnd())} */`;
    return kind === 'comment' ? token.replaceAll(/\s*\n\s*/g, ' ') : token;
  });
  const line = parts.join('').trim();
  return line.includes('\n') ? undefined : line;
}

/** Comments between `/*` and its end may contain others. */
const withoutBounds = (text: string): string => text.replaceAll('*/', '* /').replaceAll('/*', '/ *');
