// A command in a terminal of its own (tmux): keys are typed into it, and its screen is read.
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { eventually } from '../../deadline.ts';
import { type CommandLine, main } from './command_process.ts';

/** Why tests that need a terminal cannot run; false if they can. */
export const missingTerminal: string | false =
  spawnSync('tmux', ['-V']).status === 0 ? false : 'tmux is not installed (apt-get install tmux)';

export interface Terminal {
  /** Characters as they are, without a key that ends them. */
  type(text: string): void;
  /** Keys by their names in tmux. */
  press(...keys: readonly string[]): void;
  enter(text: string): void;
  /** Waits for it. */
  shows(pattern: RegExp): Promise<void>;
  /** All lines that the terminal still has. */
  screen(): string;
  /** Of the command. */
  pid(): number;
  close(): void;
}

/** `name`: of its socket. When the command has ended, the terminal shows `exit code N`. */
export function openTerminal({ directory, env }: CommandLine, name: string, words: readonly string[]): Terminal {
  const socket = join(directory, `tmux ${name}`);
  const tmux = (...args: readonly string[]) =>
    execFileSync('tmux', ['-S', socket, ...args], { encoding: 'utf8', env, cwd: directory });
  const screen = () => tmux('capture-pane', '-p', '-S', '-');
  const quoted = [process.execPath, main, ...words].map((word) => `'${word}'`).join(' ');
  tmux('-f', '/dev/null', 'new-session', '-d', '-x', '100', '-y', '40', `${quoted}; echo "exit code $?"; cat`);
  const terminal: Terminal = {
    screen,
    pid() {
      const shell = tmux('display-message', '-p', '#{pane_pid}').trim();
      return Number(readFileSync(`/proc/${shell}/task/${shell}/children`, 'utf8').split(' ')[0]);
    },
    type: (text) => void tmux('send-keys', '-l', '--', text.replace(/;$/, '\\;')),
    press: (...keys) => void tmux('send-keys', ...keys),
    enter(text) {
      terminal.type(text);
      terminal.press('Enter');
    },
    async shows(pattern) {
      await eventually(`the terminal shows ${pattern}`, () => pattern.test(screen())).catch((error: Error) => {
        throw new Error(`${error.message}\n${screen()}`);
      });
    },
    close: () => void spawnSync('tmux', ['-S', socket, 'kill-server']),
  };
  return terminal;
}
