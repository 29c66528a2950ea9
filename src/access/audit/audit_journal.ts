// A second copy of the last audit events, in a file next to the store: at the next start it reveals a store that lost the end of its log
// or is an older copy, and which changes it lacks.

import { closeSync, fdatasync, openSync, readFileSync, renameSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { OperatorError } from '../../operator/operator_error.ts';
import type { Store } from '../../store/store.ts';

export const journalFileName = 'audit.journal';
const syncEveryMs = 1_000;
const bytesMax = 1 << 20;
/** How many lost changes a message lists. */
const listedChangesMax = 20;

export interface JournalLine {
  readonly serverId: string;
  readonly sequence: number;
  readonly action: string;
  readonly target: string | null;
}

/** The store lacks changes that were acknowledged. The message is for the operator who starts the server. */
export class StoreBehind extends OperatorError {
  override readonly name: string = 'StoreBehind';
}

export class AuditJournal {
  readonly #path: string;
  #file: number | undefined;
  #bytes = 0;
  #isUnsynced = false;
  #timer: NodeJS.Timeout | undefined;

  private constructor(dataDirectory: string) {
    this.#path = join(dataDirectory, journalFileName);
  }

  /** Throws StoreBehind if the journal has lines that the store lacks. */
  static async open(dataDirectory: string, store: Store): Promise<AuditJournal> {
    const lost = await lostLines(dataDirectory, store);
    if (lost.length > 0) throw new StoreBehind(textOf(dataDirectory, lost, store));
    const journal = new AuditJournal(dataDirectory);
    journal.#rewrite(await lastLines(store));
    journal.#timer = setInterval(() => journal.#sync(), syncEveryMs).unref();
    return journal;
  }

  /** When the transaction that wrote the events into the store is committed, before the change is acknowledged. */
  note(lines: readonly JournalLine[]): void {
    if (lines.length === 0 || this.#file === undefined) return;
    try {
      if (this.#bytes > bytesMax) this.#rewrite(lines.slice(-1));
      else this.#bytes += writeSync(this.#file, textOfLines(lines));
      this.#isUnsynced = true;
    } catch {
      // The disk is full. The change itself is committed in the store.
    }
  }

  close(): void {
    clearInterval(this.#timer);
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  /** Replaces the file by these lines; all earlier ones are in the store. */
  #rewrite(lines: readonly JournalLine[]): void {
    const draft = `${this.#path}.draft`;
    const text = textOfLines(lines);
    writeFileSync(draft, text, { mode: 0o600, flush: true });
    renameSync(draft, this.#path);
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = openSync(this.#path, 'a', 0o600);
    this.#bytes = text.length;
  }

  #sync(): void {
    if (!this.#isUnsynced || this.#file === undefined) return;
    this.#isUnsynced = false;
    fdatasync(this.#file, () => undefined);
  }
}

/** The lines of the journal that the store lacks. */
export async function lostLines(dataDirectory: string, store: Store): Promise<JournalLine[]> {
  const heads = new Map((await lastLines(store)).map(({ serverId, sequence }) => [serverId, sequence]));
  return readLines(join(dataDirectory, journalFileName)).filter(
    ({ serverId, sequence }) => sequence > (heads.get(serverId) ?? 0),
  );
}

/** Accepts the loss: removes the journal. */
export function forgetLostLines(dataDirectory: string): void {
  rmSync(join(dataDirectory, journalFileName), { force: true });
}

export const changeText = ({ action, target }: JournalLine): string => [action, target].filter(Boolean).join(' ');

function textOf(dataDirectory: string, lost: readonly JournalLine[], { isShared }: Store): string {
  const shown = lost.slice(0, listedChangesMax).map((line) => `  ${changeText(line)}`);
  const more = lost.length > shown.length ? [`  and ${lost.length - shown.length} more`] : [];
  const count = `${lost.length} acknowledged ${lost.length === 1 ? 'change' : 'changes'}`;
  if (isShared)
    return [
      `the metadata store lacks ${count} of the server in ${dataDirectory}: it is another database, or an older state of it:`,
      ...shown,
      ...more,
      `Correct the setting \`store\` or restore a later state of the database; or accept the loss: delete ${join(dataDirectory, journalFileName)}`,
    ].join('\n');
  return [
    `the metadata store in ${dataDirectory} lacks ${count}: it lost the end of its log, or is an older copy:`,
    ...shown,
    ...more,
    `Put the newer metadata.sqlite, metadata.sqlite-wal and metadata.sqlite-sums back, or accept the loss: tabularium check --repair=accept --data-dir=${dataDirectory}`,
  ].join('\n');
}

async function lastLines(store: Store): Promise<JournalLine[]> {
  const chains = await store.db.selectFrom('audit_chains').select(['server_id', 'last_sequence']).execute();
  return chains.map(({ server_id: serverId, last_sequence: sequence }) => ({
    serverId,
    sequence,
    action: '',
    target: null,
  }));
}

const textOfLines = (lines: readonly JournalLine[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join('');

/** Ignores a last line that a crash cut short. */
function readLines(path: string): JournalLine[] {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    return [];
  }
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .filter((line) => line !== '')
    .flatMap((line) => {
      try {
        const read: unknown = JSON.parse(line);
        return isLine(read) ? [read] : [];
      } catch {
        return [];
      }
    });
}

function isLine(value: unknown): value is JournalLine {
  if (typeof value !== 'object' || value === null) return false;
  const { serverId, sequence } = value as Partial<JournalLine>;
  return typeof serverId === 'string' && typeof sequence === 'number';
}
