// Ports for servers that cannot choose one themselves. They are below those that the system gives to others, and each process has ranges of its
// own, so that no other test takes one before its server listens. It has a range as long as it listens on the first port of it.
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

const lowest = 12_000;
/** Below 32768, where the ports begin that Linux gives to connections and to servers on port 0. */
const rangeCount = 100;
const portsEachRange = 200;

/** Of the range of this process, not yet returned. */
const left: number[] = [];
let taking: Promise<void> | undefined;

/** @returns ports on which nothing listens; each is returned once. */
export async function freePorts(wanted: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < wanted) {
    const port = left.shift();
    if (port === undefined) {
      taking ??= takeRange().finally(() => {
        taking = undefined;
      });
      await taking;
    } else if (await isFree(port)) ports.push(port);
  }
  return ports;
}

/** Until the process ends, which the server of the range does not keep from it. */
async function takeRange(): Promise<void> {
  for (let tried = 0; tried < rangeCount; tried++) {
    const first = lowest + ((process.pid + tried) % rangeCount) * portsEachRange;
    const server = await listenOn(first);
    if (server === undefined) continue;
    server.unref();
    left.push(...Array.from({ length: portsEachRange - 1 }, (_, index) => first + 1 + index));
    return;
  }
  throw new Error('no range of ports is free');
}

async function isFree(port: number): Promise<boolean> {
  const server = await listenOn(port);
  if (server === undefined) return false;
  server.close();
  await once(server, 'close');
  return true;
}

/** @returns nothing if the port is taken. */
async function listenOn(port: number): Promise<Server | undefined> {
  const server = createServer();
  const opened = once(server, 'listening').then(
    () => server,
    () => undefined,
  );
  server.listen(port, '127.0.0.1');
  return opened;
}
