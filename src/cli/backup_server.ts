// The command `backup server`: asks the server that runs on this machine for a backup of itself, and waits for its task. The server
// alone can fix its store and its engines at one instant; the request is the one that any client may send.
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { rootTokenFileName } from '../access/authentication/root_token.ts';
import type { ServerManifest } from '../backups/server/server_manifest.ts';
import { RestFailure, type RestResult, type RestServer, sendRest } from '../client/rest_call.ts';
import { type Settings, SettingsError } from '../settings/read_settings.ts';
import { isStoreInUse } from '../store/sqlite.ts';
import { storeFileName } from '../store/store.ts';
import { type PlaceNamed, placeNamed } from './backup_place.ts';
import type { Command } from './command.ts';

/** How old the progress shown may be. */
const pollSeconds = 5;
/** The backup is made, but damaged catalogs are not in it. */
const incompleteExitCode = 3;
const anyAddress = new Set(['0.0.0.0', '::']);

/** No server can be asked. The message is for who starts the command. */
export class NoServerError extends Error {
  override name = 'NoServerError';
}

export const backupServerCommand: Command = {
  name: 'backup server',
  argument: 'place',
  doc: 'Asks the running server for a backup of the whole of it, in a directory that its `backupDirectories` allow, or in `s3://bucket/prefix` with the credentials of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and waits for it. It authenticates with TABULARIUM_TOKEN, or with `root.token` of the data directory. Ends with 1 where the backup is not made, with 3 where it is made without catalogs that are damaged.',
  run: async (settings, say, where) => {
    const to = placeNamed(where ?? '', settings);
    const server = { url: urlOf(settings), token: settings.token || (await tokenOfRunning(settings)) };
    const progress = progressLines();
    try {
      const { result } = await sendRest(
        server,
        {
          method: 'POST',
          path: '/api/v2/server_backups/create',
          mediaType: 'application/json',
          body: JSON.stringify({ to }),
          idempotencyKey: randomUUID(),
        },
        { timeoutMs: Number.POSITIVE_INFINITY, pollSeconds, onRecord: progress.show },
      );
      const made = result as unknown as BackupResult;
      for (const line of outcome(made, to)) say(line);
      if (made.catalogsLeftOut.length > 0) process.exitCode = incompleteExitCode;
    } catch (error) {
      if (!(error instanceof RestFailure)) throw error;
      for (const line of failureLines(error, server, progress.task())) tell(line);
      process.exitCode = 1;
    }
  },
};

const tell = (line: string) => void process.stderr.write(`${line}\n`);

/** Without `url`, it is where a server with these settings listens. */
function urlOf({ url, host, port, tlsCertFile }: Settings): string {
  if (url !== '' && !URL.canParse(url)) throw new SettingsError(`--url must be a URL; it is ${JSON.stringify(url)}`);
  if (url !== '') return url;
  const reached = anyAddress.has(host) ? 'localhost' : host.includes(':') ? `[${host}]` : host;
  return `${tlsCertFile === '' ? 'http' : 'https'}://${reached}:${port}`;
}

/**
 * Read only while a server holds the data directory: else another program could listen at the address, and would be sent the token.
 * Throws SettingsError, NoServerError.
 */
async function tokenOfRunning(settings: Settings): Promise<string> {
  const dataDirectory = resolve(settings.dataDir);
  const store = join(dataDirectory, storeFileName);
  if (!existsSync(store))
    throw new SettingsError(
      `${dataDirectory} holds no data of a server: name another with --data-dir, or give a token in TABULARIUM_TOKEN`,
    );
  if (!isStoreInUse(store))
    throw new NoServerError(
      `no server runs on ${dataDirectory}: start it and repeat the command, or copy the directory while no server runs on it ` +
        `(cp -a ${dataDirectory} <copy>); a server starts on the copy with --data-dir=<copy>`,
    );
  const file = join(dataDirectory, rootTokenFileName);
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    throw new SettingsError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code}): give TABULARIUM_TOKEN`);
  }
}

/** One line on the standard error for each percent, and for each change of state. */
function progressLines() {
  let [uri, shown] = ['', ''];
  return {
    task: () => uri,
    show: ({ uri: at, state, progress, progressText }: RestResult) => {
      if (uri === '') tell(`task ${at}`);
      uri = String(at);
      const percent = typeof progress === 'number' ? ` ${Math.floor(progress * 100)} %` : '';
      const line = `${state}${percent}`;
      if (line !== shown) tell(typeof progressText === 'string' ? `${line} (${progressText})` : line);
      shown = line;
    },
  };
}

type BackupResult = Pick<ServerManifest, 'backupId' | 'takenAt' | 'catalogsLeftOut' | 'secretKey'> & {
  readonly catalogs: number;
  readonly files: number;
  readonly bytes: number;
};

const placeText = (to: PlaceNamed) => ('s3' in to ? `s3://${to.s3.bucket}/${to.s3.prefix ?? ''}` : to.path);

function outcome(result: BackupResult, to: PlaceNamed): string[] {
  const { backupId, takenAt, catalogs, files, bytes, secretKey } = result;
  return [
    `backed up ${backupId} of ${takenAt} to ${placeText(to)}: ${catalogCount(catalogs)}, ${files} files, ${bytes} bytes`,
    ...notInBackup(result),
    ...(secretKey === 'plain'
      ? ['Its keys are not encrypted: the server runs without TABULARIUM_BACKUP_PASSPHRASE.']
      : []),
  ];
}

export const catalogCount = (count: number) => `${count} ${count === 1 ? 'catalog' : 'catalogs'}`;

/** What a restore will not bring back. */
export function notInBackup({ catalogsLeftOut, secretKey }: Pick<ServerManifest, 'catalogsLeftOut' | 'secretKey'>) {
  const key = 'its secrets open with the key that the server had in TABULARIUM_SECRET_KEY or --secret-key-file';
  return [
    ...catalogsLeftOut.map(({ name, reason }) => `NOT in the backup: catalog ${JSON.stringify(name)} (${reason})`),
    ...(secretKey === 'outside' ? [`NOT in the backup: the key of the secrets; ${key}`] : []),
  ];
}

/** `task`: its URI, empty where none was submitted. */
function failureLines({ status, code, message, advice }: RestFailure, { url }: RestServer, task: string): string[] {
  if (status === 0)
    return [
      `FAULT: no answer from ${url} (${message})`,
      task === ''
        ? 'Name the address of the server with --url; without it, it follows from host, port and tlsCertFile of the settings.'
        : `The task ${task} was submitted: the server continues it, also after a restart.`,
    ];
  return [`FAULT: the backup was not made: ${message} (${code})`, `What to do: ${advice}`];
}
