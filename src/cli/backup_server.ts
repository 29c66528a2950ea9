// The command `backup server`: requests a backup from a running server and waits for its task. Only the server itself can take a
// consistent snapshot of its store and its engines; the request is one that any client can send.

import assert from 'node:assert/strict';
import { join, resolve } from 'node:path';
import { readRootToken, rootTokenFileName } from '../access/authentication/root_token.ts';
import { adviceFor } from '../client/advice.ts';
import { createClient, TabulariumError, Task, type TaskRecord, type TaskResultOf } from '../client/index.ts';
import { type Settings, SettingsError } from '../settings/read_settings.ts';
import { hasServerData, isServerRunning } from '../store/open_store.ts';
import { type BackupLocation, parseBackupLocation } from './backup_location.ts';
import type { Command } from './command.ts';
import { CommandError, exitCodes, exitKindOf } from './exit_codes.ts';

/** How long a lost connection and a busy server are tolerated. */
const retryForMs = 3_000;
/** The backup was taken without damaged catalogs. */
const incompleteExitCode = exitCodes.differs.code;
const anyAddress = new Set(['0.0.0.0', '::']);

export const backUpServer: Command['run'] = async (settings, print, where) => {
  const to = parseBackupLocation(where ?? '', settings);
  const url = urlOf(settings);
  const client = createClient({ url, token: settings.token || tokenOfRunning(settings), retryForMs });
  const progress = progressLines();
  try {
    const task = await client.serverBackups.create({ to });
    assert.ok(task instanceof Task, 'a new backup is a task');
    const backup = await task.done({ onProgress: progress.show });
    for (const line of outcome(backup, to)) print(line);
    if (backup.catalogsLeftOut.length > 0) process.exitCode = incompleteExitCode;
    return { ...backup };
  } catch (error) {
    if (!(error instanceof TabulariumError)) throw error;
    const lines = failureLines(error, url, progress.task());
    const kind = exitKindOf(error);
    if (settings.json) throw new CommandError(kind, lines.join('\n'), { cause: error });
    for (const line of lines) printError(line);
    process.exitCode = exitCodes[kind].code;
    return undefined;
  }
};

const printError = (line: string) => void process.stderr.write(`${line}\n`);

/** Without `url`, the address on which a server with these settings listens. */
function urlOf({ url, host, port, tlsCertFile }: Settings): string {
  if (url !== '' && !URL.canParse(url)) throw new SettingsError(`--url must be a URL; it is ${JSON.stringify(url)}`);
  if (url !== '') return url;
  const hostname = anyAddress.has(host) ? 'localhost' : host.includes(':') ? `[${host}]` : host;
  return `${tlsCertFile === '' ? 'http' : 'https'}://${hostname}:${port}`;
}

/**
 * Reads the token only while a server has the data directory open: otherwise another program could listen on the address and receive it.
 * Throws SettingsError, CommandError.
 */
function tokenOfRunning(settings: Settings): string {
  const dataDirectory = resolve(settings.dataDir);
  const location = { store: settings.store, dataDirectory };
  if (!hasServerData(location))
    throw new SettingsError(
      `${dataDirectory} does not contain the data of a server: choose another with --data-dir, or set TABULARIUM_TOKEN`,
    );
  if (!isServerRunning(location))
    throw new CommandError(
      'unavailable',
      `no server is running on ${dataDirectory}: start it and repeat the command, or copy the directory while no server uses it ` +
        `(cp -a ${dataDirectory} <copy>); start a server on the copy with --data-dir=<copy>`,
    );
  const token = readRootToken(dataDirectory);
  if (token === undefined)
    throw new SettingsError(`${join(dataDirectory, rootTokenFileName)} does not exist: set TABULARIUM_TOKEN`);
  return token;
}

/** Prints a line to the standard error for each percent and each change of state. */
function progressLines() {
  let [uri, shown] = ['', ''];
  return {
    task: () => uri,
    show: ({ uri: taskUri, state, progress, progressText }: TaskRecord) => {
      if (uri === '') printError(`task ${taskUri}`);
      uri = String(taskUri);
      const percent = typeof progress === 'number' ? ` ${Math.floor(progress * 100)} %` : '';
      const line = `${state}${percent}`;
      if (line !== shown) printError(typeof progressText === 'string' ? `${line} (${progressText})` : line);
      shown = line;
    },
  };
}

type BackupResult = TaskResultOf<'server_backup'>;

const placeText = (to: BackupLocation) => ('s3' in to ? `s3://${to.s3.bucket}/${to.s3.prefix ?? ''}` : to.path);

function outcome(result: BackupResult, to: BackupLocation): string[] {
  const { backupId, takenAt, catalogs, files, bytes, secretKey } = result;
  return [
    `backed up ${backupId} of ${takenAt} to ${placeText(to)}: ${catalogCount(catalogs)}, ${files} files, ${bytes} bytes`,
    ...notInBackup(result),
    ...(secretKey === 'plain'
      ? ['Its keys are not encrypted, because the server runs without TABULARIUM_BACKUP_PASSPHRASE.']
      : []),
  ];
}

export const catalogCount = (count: number) => `${count} ${count === 1 ? 'catalog' : 'catalogs'}`;

/** What the backup does not contain. */
export function notInBackup({ catalogsLeftOut, secretKey }: Pick<BackupResult, 'catalogsLeftOut' | 'secretKey'>) {
  const key = 'its secrets require the key that the server had in TABULARIUM_SECRET_KEY or --secret-key-file';
  return [
    ...catalogsLeftOut.map(({ name, reason }) => `NOT in the backup: catalog ${JSON.stringify(name)} (${reason})`),
    ...(secretKey === 'outside' ? [`NOT in the backup: the key of the secrets; ${key}`] : []),
  ];
}

/** `task`: the URI of the task; empty if none was submitted. */
function failureLines(error: TabulariumError, url: string, task: string): string[] {
  const { status, code, message } = error;
  if (status === 0)
    return [
      `FAULT: no response from ${url} (${message})`,
      task === ''
        ? 'Set the URL of the server with --url; by default it is derived from the settings host, port and tlsCertFile.'
        : `The task ${task} was submitted: the server continues it, also after a restart.`,
    ];
  return [`FAULT: the backup failed: ${message} (${code})`, `What to do: ${adviceFor(error)}`];
}
