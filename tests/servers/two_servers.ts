// Two server processes on one PostgreSQL store. The first has the default warehouse; the second has a warehouse `second`.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../deadline.ts';
import { newStoreDatabase, urlOfDatabase } from '../postgresql.ts';
import { type ServerProcess, startProcess } from '../server.ts';

export interface ServerPlace {
  readonly directory: string;
  start(flags?: readonly string[]): Promise<ServerProcess>;
  /** Its id on the store, once it was started. */
  id(): string;
}

export interface Places {
  /** Of this test, removed at its end. */
  readonly directory: string;
  readonly one: ServerPlace;
  readonly two: ServerPlace;
  /** The file with the key of the secrets. */
  readonly keyFile: string;
  readonly storeUrl: string;
  remove(): void;
}

/** The servers have the test engine, too, if they receive the port of its process. */
export async function newPlaces(enginePort?: number, entry?: URL): Promise<Places> {
  const root = mkdtempSync(join(tmpdir(), 'tabularium-two-servers-'));
  const storeUrl = urlOfDatabase(await newStoreDatabase());
  const keyFile = join(root, 'one', 'secret.key');
  const withEngine =
    enginePort === undefined
      ? { ...(entry ? { entry } : {}) }
      : {
          entry: new URL('server_with_test_engine.ts', import.meta.url),
          environment: { TEST_ENGINE_PORT: String(enginePort) },
        };
  const place = (name: string): ServerPlace => {
    const directory = join(root, name);
    const own = [`--store=${storeUrl}`, '--shutdown-timeout-ms=3000'];
    const key = name === 'one' ? [] : [`--secret-key-file=${keyFile}`];
    return {
      directory,
      start: (flags = []) => startProcess([...own, ...key, ...flags], directory, withEngine),
      id: () => readFileSync(join(directory, 'server.id'), 'utf8').trim(),
    };
  };
  return {
    one: place('one'),
    two: place('two'),
    directory: root,
    keyFile,
    storeUrl,
    remove: () => rmSync(root, { recursive: true, force: true }),
  };
}

/** Starts a server until both see each other, as the server of a change needs to be known to the other. */
export async function seeEachOther(
  one: ServerProcess,
  two: ServerProcess,
  warehouses: readonly string[],
): Promise<void> {
  for (const server of [one, two])
    for (const warehouse of warehouses)
      await eventually(`${warehouse} is reached through ${server.url}`, async () => {
        const { status } = await server.get(`/api/v2/warehouses/${warehouse}/backends`);
        return status === 200;
      });
}

export async function kill(server: ServerProcess): Promise<void> {
  server.child.kill('SIGKILL');
  await server.exited;
}
