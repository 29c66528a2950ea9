// Reads what a stopped server left of its tasks, on its disk and in the object store: unknown files, results and secrets of ended
// or deleted tasks, objects of failed exports. An empty list: nothing is left over.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type ExternalSystems, exportPrefix } from '../injection/external_systems.ts';

interface StoredTask {
  readonly task_id: string;
  readonly type: string;
  readonly state: string;
  readonly result: string | null;
  readonly notify_at: number | null;
}

interface StoredRows {
  readonly tasks: ReadonlyMap<string, StoredTask>;
  readonly fileIds: ReadonlySet<string>;
  readonly secrets: readonly string[];
}

/** Everything in a data directory when nothing runs, except what is checked below. */
const expectedEntries = new Set([
  'catalogs',
  'files',
  'disk.reserve',
  'audit.journal',
  'audit.journal.draft',
  'metadata.sqlite',
  'metadata.sqlite-shm',
  'metadata.sqlite-sums',
  'metadata.sqlite-sums.draft',
  'metadata.sqlite-wal',
  'results',
  'root.token',
  'secret.key',
  'spool',
  'staging',
]);

export async function leftovers(dataDirectory: string, external: ExternalSystems): Promise<string[]> {
  const rows = rowsOf(dataDirectory);
  const leftoverTexts: string[] = [];
  for (const name of readdirSync(dataDirectory))
    if (!expectedEntries.has(name)) leftoverTexts.push(`what is this: ${name}`);
  for (const directory of ['spool', 'staging'])
    for (const name of filesBelow(join(dataDirectory, directory)))
      leftoverTexts.push(`left in the ${directory}: ${name}`);
  for (const name of filesBelow(join(dataDirectory, 'files')))
    if (!rows.fileIds.has(name)) leftoverTexts.push(`a file that nothing knows: ${name}`);
  for (const name of filesBelow(join(dataDirectory, 'results'))) {
    const state = rows.tasks.get(name.split('.')[0] as string)?.state;
    if (state !== 'succeeded') leftoverTexts.push(`a result of a task that is ${state ?? 'gone'}: ${name}`);
  }
  for (const name of rows.secrets) {
    const task = rows.tasks.get(name.split(/[/ ]/)[1] as string);
    const isWanted = name.startsWith('task/') && task?.notify_at !== null && task !== undefined;
    if (!isWanted) leftoverTexts.push(`a secret of a task that is ${task?.state ?? 'gone'}: ${name}`);
  }
  leftoverTexts.push(...(await objectsLeft(rows, external)));
  return leftoverTexts;
}

function rowsOf(dataDirectory: string): StoredRows {
  const store = new DatabaseSync(join(dataDirectory, 'metadata.sqlite'), { readOnly: true });
  const read = <T>(sql: string) => store.prepare(sql).all() as unknown as T[];
  const tasks = read<StoredTask>('select task_id, type, state, result, notify_at from tasks');
  const files = read<{ file_id: string }>('select file_id from files');
  const secrets = read<{ name: string }>("select name from secrets where name <> 'derivation'");
  store.close();
  return {
    tasks: new Map(tasks.map((task) => [task.task_id, task])),
    fileIds: new Set(files.map(({ file_id }) => file_id)),
    secrets: secrets.map(({ name }) => name),
  };
}

function filesBelow(directory: string): string[] {
  const all = readdirSync(directory, { recursive: true, encoding: 'utf8' });
  return all.filter((name) => !statSync(join(directory, name)).isDirectory());
}

/** A folder contains exactly what its manifest names; there is none of a failed task. */
async function objectsLeft({ tasks }: StoredRows, { objects }: ExternalSystems): Promise<string[]> {
  const leftoverTexts: string[] = [];
  const keys = (await Array.fromAsync(objects.list(`${exportPrefix}/`))).map(({ key }) => key);
  const folders = Map.groupBy(keys, (key) => key.split('/')[1] as string);
  for (const [taskId, taskFiles] of folders) {
    const task = tasks.get(taskId);
    // Written by another server of this process.
    if (!task) continue;
    if (task.state !== 'succeeded') {
      leftoverTexts.push(`objects of an export that ${task.state}: ${taskFiles.join(', ')}`);
      continue;
    }
    const { files } = JSON.parse(task.result as string) as { files: readonly { name: string }[] };
    const expectedNames = [...files.map(({ name }) => name), 'manifest.json'].map(
      (name) => `${exportPrefix}/${taskId}/${name}`,
    );
    if (JSON.stringify(expectedNames.toSorted()) !== JSON.stringify(taskFiles.toSorted()))
      leftoverTexts.push(`an export of ${expectedNames.join(', ')} left ${taskFiles.join(', ')}`);
  }
  for (const { task_id, type, state } of tasks.values())
    if (type === 'export' && state === 'succeeded' && !folders.has(task_id))
      leftoverTexts.push(`an export that succeeded and is not there: ${task_id}`);
  return leftoverTexts;
}
