// What the tasks of the scenarios reach outside of the server, in the test's own process: an object store behind a gate that counts
// what is asked of it and may break it off, a page, and who is told of the ends of tasks. One of each for a process, on demand.
import {
  Agent,
  createServer,
  request as forward,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { HostAllowlist } from '../../src/outbound/host_allowlist.ts';
import { type ObjectStore, openObjectStore } from '../../src/outbound/object_store.ts';
import { startObjectStore } from '../outbound/object_store_server.ts';
import { Receiver } from '../tasks/receiver.ts';

/** `asked`: before a request is handed to the store. `answered`: when it was done, before its answer goes back. */
export type GatePoint = 'asked' | 'answered';
type Hit = (point: GatePoint, what: string) => void;

export const exportPrefix = 'out';
export const sourceKey = 'in/notes.csv';
export const sourceText = 'id,note\n101,first\n102,second\n';

/** The flags with which a server may reach all this. */
export const reaching = ['--export-hosts', '127.0.0.1', '--load-hosts', '127.0.0.1', '--webhook-hosts', '127.0.0.1'];

export interface Surroundings {
  /** Where an object of the bucket is, with the keys. */
  readonly place: Readonly<Record<string, unknown>>;
  /** A file of two rows. */
  readonly pageUrl: string;
  readonly receiver: Receiver;
  /** Past the gate. */
  readonly objects: ObjectStore;
  /** Asked for every request of the server to the object store and to the page; breaks it off by throwing. */
  hit: Hit;
  close(): Promise<void>;
}

let started: Promise<Surroundings> | undefined;

/** At the end: what listens keeps a process from ending. */
export async function leaveSurroundings(): Promise<void> {
  const left = started;
  started = undefined;
  await (await left)?.close();
}

export function surroundings(): Promise<Surroundings> {
  started ??= start();
  return started;
}

async function start(): Promise<Surroundings> {
  const store = await startObjectStore();
  const receiver = await new Receiver().listen();
  const here: { hit: Hit } = { hit: () => {} };
  const agent = new Agent({ keepAlive: true });
  const gate = createServer((incoming, outgoing) => {
    if (incoming.url === '/notes.csv') pass(here, incoming, outgoing, () => outgoing.end(sourceText));
    else pass(here, incoming, outgoing, () => handOn(here, new URL(store.endpoint).port, agent, incoming, outgoing));
  });
  const endpoint = await listening(gate);
  const { bucket, accessKeyId, secretAccessKey } = store;
  const direct = { endpoint: store.endpoint, region: 'us-east-1', bucket, pathStyle: true };
  const objects = await openObjectStore(direct, store, new HostAllowlist(['127.0.0.1']));
  await objects.writeSmall(sourceKey, sourceText);
  return Object.assign(here, {
    place: { endpoint, region: 'us-east-1', bucket, pathStyle: true, accessKeyId, secretAccessKey },
    pageUrl: `${endpoint}/notes.csv`,
    receiver,
    objects,
    close: async () => {
      objects.close();
      receiver.close();
      gate.close();
      gate.closeAllConnections();
      agent.destroy();
      await store.close();
    },
  });
}

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** What breaks off is answered as a store does that is down, or not at all. */
function pass(here: { hit: Hit }, incoming: IncomingMessage, outgoing: ServerResponse, go: () => void): void {
  try {
    here.hit('asked', `${incoming.method} ${incoming.url?.split('?')[0]}`);
  } catch {
    incoming.resume();
    outgoing.writeHead(503).end();
    return;
  }
  go();
}

function handOn(
  here: { hit: Hit },
  port: string,
  agent: Agent,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): void {
  const { method, url, headers } = incoming;
  const given = forward({ host: '127.0.0.1', port, agent, method, path: url, headers }, (answer) => {
    const chunks: Buffer[] = [];
    answer.on('data', (chunk: Buffer) => chunks.push(chunk));
    answer.on('end', () => {
      try {
        here.hit('answered', `${method} ${url?.split('?')[0]}`);
      } catch {
        outgoing.destroy();
        return;
      }
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers).end(Buffer.concat(chunks));
    });
  });
  given.on('error', () => outgoing.destroy());
  incoming.on('error', () => given.destroy());
  incoming.pipe(given);
}
