// Services that the tasks of the scenarios use, in the test's process: an object store behind a proxy
// that counts requests and may fail them, a page, and a receiver of webhooks. One of each per process, created on demand.
import {
  Agent,
  createServer,
  request as forward,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { HostAllowlist } from '../../../src/outbound/host_allowlist.ts';
import { type ObjectStore, openObjectStore } from '../../../src/outbound/object_store.ts';
import { startObjectStore } from '../../outbound/object_store_server.ts';
import { Receiver } from '../../tasks/receiver.ts';

/** `asked`: before a request is passed to the store. `answered`: after its execution, before its response is returned. */
export type GatePoint = 'asked' | 'answered';
type Hit = (point: GatePoint, call: string) => void;

export const exportPrefix = 'out';
export const sourceKey = 'in/notes.csv';
export const sourceText = 'id,note\n101,first\n102,second\n';

/** The flags with which a server may access all of them. */
export const serviceHostFlags = [
  '--export-hosts',
  '127.0.0.1',
  '--load-hosts',
  '127.0.0.1',
  '--webhook-hosts',
  '127.0.0.1',
];

export interface ExternalSystems {
  /** The address of an object of the bucket, with credentials. */
  readonly objectStore: Readonly<Record<string, unknown>>;
  /** A file of two rows. */
  readonly pageUrl: string;
  readonly receiver: Receiver;
  /** Bypasses the proxy. */
  readonly objects: ObjectStore;
  /** Called for every request of the server to the object store and to the page; throws to fail it. */
  hit: Hit;
  close(): Promise<void>;
}

let started: Promise<ExternalSystems> | undefined;

/** Called at the end, because listening servers keep a process alive. */
export async function closeExternalSystems(): Promise<void> {
  const remaining = started;
  started = undefined;
  await (await remaining)?.close();
}

export function externalSystems(): Promise<ExternalSystems> {
  started ??= start();
  return started;
}

async function start(): Promise<ExternalSystems> {
  const store = await startObjectStore();
  const receiver = await new Receiver().listen();
  const here: { hit: Hit } = { hit: () => {} };
  const agent = new Agent({ keepAlive: true });
  const gate = createServer((incoming, outgoing) => {
    if (incoming.url === '/notes.csv') passThrough(here, incoming, outgoing, () => outgoing.end(sourceText));
    else
      passThrough(here, incoming, outgoing, () =>
        forwardToStore(here, new URL(store.endpoint).port, agent, incoming, outgoing),
      );
  });
  const endpoint = await listenLocally(gate);
  const { bucket, accessKeyId, secretAccessKey } = store;
  const direct = { endpoint: store.endpoint, region: 'us-east-1', bucket, pathStyle: true };
  const objects = await openObjectStore(direct, store, new HostAllowlist(['127.0.0.1']));
  await objects.writeSmall(sourceKey, sourceText);
  return Object.assign(here, {
    objectStore: { endpoint, region: 'us-east-1', bucket, pathStyle: true, accessKeyId, secretAccessKey },
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

async function listenLocally(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A failed request gets the response of an unavailable store, or none. */
function passThrough(here: { hit: Hit }, incoming: IncomingMessage, outgoing: ServerResponse, go: () => void): void {
  try {
    here.hit('asked', `${incoming.method} ${incoming.url?.split('?')[0]}`);
  } catch {
    incoming.resume();
    outgoing.writeHead(503).end();
    return;
  }
  go();
}

function forwardToStore(
  here: { hit: Hit },
  port: string,
  agent: Agent,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): void {
  const { method, url, headers } = incoming;
  const forwarded = forward({ host: '127.0.0.1', port, agent, method, path: url, headers }, (answer) => {
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
  forwarded.on('error', () => outgoing.destroy());
  incoming.on('error', () => forwarded.destroy());
  incoming.pipe(forwarded);
}
