// Pastes commands block by block into one shell against a real server and captures their output. The tests decide what is expected.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { TestServer } from '../server.ts';

/** The response of one curl. */
export interface Answer {
  readonly status: number;
  readonly body: string;
}

export interface PasteResult {
  /** The terminal output of the block. */
  readonly output: string;
  /** The responses of each curl in it, including those whose output went into a variable, a pipe or a file. */
  readonly answers: readonly Answer[];
  /** How many of its commands failed, except in conditions. */
  readonly failures: number;
}

/** Records the response of each curl in addition to the terminal output, in the order in which they end. */
const keepingCurl = `curl() {
  local kept=$ANSWERS/$(printf %04d "$(ls "$ANSWERS" | wc -l)")
  mkdir "$kept"
  command curl --silent --show-error --dump-header "$kept/head" "$@" >"$kept/body"
  cat "$kept/body"
}
`;

function answersIn(directory: string): Answer[] {
  return readdirSync(directory)
    .sort()
    .map((name) => {
      // The last status line: one of 100 may precede it.
      const status = readFileSync(join(directory, name, 'head'), 'utf8')
        .match(/^HTTP\/\S+ \d+/gm)
        ?.at(-1);
      const body = readFileSync(join(directory, name, 'body'), 'utf8');
      return { status: Number(status?.split(' ')[1]), body };
    });
}

export interface Shell {
  /** Waits for the end of a block. */
  paste(block: string): Promise<PasteResult>;
}

/** A shell as a reader has it, in the directory in which a server was started. `t` ends it. */
export function openShell(
  t: TestContext,
  server: Pick<TestServer, 'token' | 'url'>,
  environment: NodeJS.ProcessEnv = {},
): Shell {
  const home = mkdtempSync(join(tmpdir(), 'tabularium-paste-'));
  const answersDirectory = mkdtempSync(join(tmpdir(), 'tabularium-answers-'));
  mkdirSync(join(home, 'data'));
  writeFileSync(join(home, 'data', 'root.token'), server.token);
  const shell = spawn('bash', ['-s'], {
    cwd: home,
    env: { ...process.env, ...environment, ANSWERS: answersDirectory },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.after(() => {
    shell.kill();
    for (const directory of [home, answersDirectory]) rmSync(directory, { recursive: true, force: true });
  });
  shell.stdin.write(`${keepingCurl}trap ': $((failures += 1))' ERR\n`);
  const written = shell.stdout.setEncoding('utf8')[Symbol.asyncIterator]();
  const end = /\n-- the end of a block: (\d+) --\n$/;
  let answerCount = 0;
  return {
    paste: async (block) => {
      const localized = block.replaceAll('http://127.0.0.1:8030', server.url);
      shell.stdin.write(`failures=0\n${localized}\nprintf '\\n-- the end of a block: %d --\\n' "$failures"\n`);
      let output = '';
      while (!end.test(output)) {
        const { value, done } = await written.next();
        assert.ok(!done, `the shell ended in: ${block}${output}`);
        output += value;
      }
      const answers = answersIn(answersDirectory).slice(answerCount);
      answerCount += answers.length;
      return { output: output.replace(end, ''), answers, failures: Number(end.exec(output)?.[1]) };
    },
  };
}
