// Runs commands that call a server as processes, with profiles of their own.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { deadlineMs } from '../../deadline.ts';

export const main = fileURLToPath(new URL('../../../src/main.ts', import.meta.url));

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly input?: string | undefined;
  /** Instead of those of the command line. */
  readonly env?: NodeJS.ProcessEnv;
  /** Called when the process has started. */
  readonly started?: (kill: (signal: NodeJS.Signals) => void) => void;
}

export interface CommandLine {
  /** A directory of its own, in which commands run. */
  readonly directory: string;
  readonly env: NodeJS.ProcessEnv;
  run(words: readonly string[], options?: RunOptions): Promise<Ended>;
  remove(): void;
}

export function newCommandLine(): CommandLine {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-cli-'));
  const { TABULARIUM_URL: _url, TABULARIUM_TOKEN: _token, TABULARIUM_PROFILE: _profile, ...outer } = process.env;
  const env = { ...outer, XDG_CONFIG_HOME: join(directory, 'config'), NO_COLOR: '1' };
  return {
    directory,
    env,
    async run(words, { input = '', env: changed, started } = {}) {
      const options = { cwd: directory, env: { ...env, ...changed }, timeout: deadlineMs(60_000) };
      const child = spawn(process.execPath, [main, ...words], options);
      started?.((signal) => child.kill(signal));
      child.stdin.on('error', () => undefined);
      child.stdin.end(input);
      const [stdout, stderr, [code]] = await Promise.all([
        text(child.stdout),
        text(child.stderr),
        once(child, 'close'),
      ]);
      return { code: code as number | null, stdout, stderr };
    },
    remove: () => rmSync(directory, { recursive: true, force: true }),
  };
}

/** With the token of a server, for all commands that follow. */
export async function signIn(
  line: CommandLine,
  { url, token }: { readonly url: string; readonly token: string },
): Promise<void> {
  writeFileSync(join(line.directory, 'token'), token);
  assert.equal((await line.run(['login', '--url', url, '--token-file', 'token'])).code, 0);
}
