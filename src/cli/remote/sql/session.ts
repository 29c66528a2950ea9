// The interactive session of `sql`: a prompt with history, completion and statements of several lines; Ctrl-C cancels the statement that
// runs, or discards the one that is being written.
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { statementsOf, tokensOf } from '../../../client/statements.ts';
import { createOperatorDirectory } from '../../../operator/operator_directory.ts';
import type { Runtime } from '../call_options.ts';
import { NotCancelled } from '../cancelling.ts';
import { shownFailure } from '../exit_codes.ts';
import { configurationDirectory } from '../profiles.ts';
import { HistoryFile, historyLinesMax, oneLine } from './history_file.ts';
import { NameCompletion } from './name_completion.ts';
import { runStatement } from './run_statement.ts';
import type { Session, SqlOptions } from './session_state.ts';
import { runShortcut } from './shortcuts.ts';

/** Resolves when the user ends the session with Ctrl-D or `\q`. */
export async function interactiveSession(options: SqlOptions, runtime: Runtime): Promise<void> {
  const connection = runtime.connect(options);
  const output = runtime.output(options);
  // Before the terminal is read: until then, Ctrl-C ends the command.
  const { name } = await connection.client.users.identify({}, { signal: runtime.signal });
  const session: Session = { connection, runtime, options, isEnded: false };
  const directory = configurationDirectory(process.env);
  // A history that cannot be written is reported with the first statement.
  await createOperatorDirectory(directory).catch(() => undefined);
  const history = new HistoryFile(join(directory, 'history'));
  const completion = new NameCompletion(session);
  let prompt: Prompt | undefined;
  const lines = createInterface({
    input: process.stdin,
    output: process.stdout,
    history: history.lines(),
    historySize: historyLinesMax,
    removeHistoryDuplicates: true,
    completer: (line: string, done: (error: null, result: [string[], string]) => void) =>
      void completion.complete(line, prompt?.begun).then((result) => done(null, result)),
  });
  await output.write(
    `Connected to ${connection.url} as ${name}. Statements end with a semicolon; \\? shows help, \\q ends.\n`,
  );
  prompt = new Prompt(lines, session, history);
  await prompt.run().finally(() => completion.end());
}

class Prompt {
  readonly #lines: Interface;
  readonly #session: Session;
  readonly #history: HistoryFile;
  #text = '';
  /** The newest first, of readline. */
  #entries: string[] = [];
  #running: AbortController | undefined;

  constructor(lines: Interface, session: Session, history: HistoryFile) {
    this.#lines = lines;
    this.#session = session;
    this.#history = history;
    lines.on('history', (entries: string[]) => {
      this.#entries = entries;
    });
  }

  /** The lines before the one that is being written, of the same statement. */
  get begun(): string {
    return this.#text;
  }

  /** Lines are processed one after the other; those that come while a statement runs wait. */
  async run(): Promise<void> {
    this.#lines.on('SIGINT', () => this.#interrupt());
    this.#session.runtime.signal.addEventListener('abort', () => this.#lines.close(), { once: true });
    const waiting: string[] = [];
    let wake: () => void = () => undefined;
    let isClosed = false;
    this.#lines.on('line', (line) => {
      waiting.push(line);
      wake();
    });
    this.#lines.on('close', () => {
      isClosed = true;
      this.#running?.abort();
      wake();
    });
    this.#prompt();
    for (;;) {
      const line = waiting.shift();
      if (line === undefined) {
        if (isClosed) break;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        continue;
      }
      await this.#line(line);
      if (this.#session.isEnded) break;
      if (!isClosed) this.#prompt();
    }
    this.#lines.close();
  }

  #prompt(): void {
    const { catalog, database } = this.#session.options;
    const place = database === undefined ? catalog : `${catalog}.${database}`;
    this.#lines.setPrompt(this.#text === '' ? `${place}> ` : `${' '.repeat(Math.max(0, place.length - 3))}...> `);
    this.#lines.prompt();
  }

  #interrupt(): void {
    if (this.#running) {
      this.#running.abort();
      return;
    }
    this.#text = '';
    process.stdout.write('^C\n');
    // The line that was being written is discarded, too.
    this.#lines.write(null, { ctrl: true, name: 'u' });
    this.#prompt();
  }

  async #line(line: string): Promise<void> {
    if (this.#text === '' && line.trim().startsWith('\\')) {
      // What ended a session is of no use in the next one.
      if (line.trim() !== '\\q') this.#remember(line);
      await this.#guarded((signal) => runShortcut(line.trim(), this.#session, signal));
      return;
    }
    if (this.#text === '' && line.trim() === '') return;
    if (this.#text === '' && Object.hasOwn(plainWords, line.trim().toLowerCase()))
      return this.#line(plainWords[line.trim().toLowerCase()] as string);
    this.#text = this.#text === '' ? line : `${this.#text}\n${line}`;
    if (!isComplete(this.#text)) return;
    const text = this.#text;
    this.#text = '';
    this.#remember(text);
    const { connection, runtime, options } = this.#session;
    for (const { from, to } of statementsOf(text)) {
      const sql = text.slice(from, to);
      const done = await this.#guarded((signal) => runStatement(sql, { ...options, connection, runtime, signal }));
      if (!done) break;
    }
  }

  /** A statement of several lines is one entry, also in this session. */
  #remember(text: string): void {
    const note = this.#history.add(text);
    if (note !== undefined) this.#session.runtime.output(this.#session.options).note(note);
    const lines = text.split('\n');
    const entry = oneLine(text);
    const isLatest = lines.every((line, i) => this.#entries[lines.length - 1 - i] === line);
    if (lines.length > 1 && entry !== undefined && isLatest) this.#entries.splice(0, lines.length, entry);
  }

  /** Shows a failure instead of ending the session. @returns whether the work succeeded. */
  async #guarded(work: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    const running = new AbortController();
    this.#running = running;
    try {
      await work(running.signal);
      return true;
    } catch (error) {
      const shown = await shownFailure(error);
      if (running.signal.aborted && !(error instanceof NotCancelled)) process.stderr.write('cancelled\n');
      else if (shown) process.stderr.write(`${shown.message}\n`);
      else throw error;
      return false;
    } finally {
      this.#running = undefined;
    }
  }
}

/** What users of other programs type. */
const plainWords: Readonly<Record<string, string>> = { exit: '\\q', quit: '\\q', help: '\\?' };

/** Whether the last token that is neither space nor comment is a semicolon, and no text or comment is open. */
function isComplete(text: string): boolean {
  const last = tokensOf(text).findLast(({ kind }) => kind !== 'space' && kind !== 'comment');
  return last?.kind === 'symbol' && text[last.from] === ';';
}
