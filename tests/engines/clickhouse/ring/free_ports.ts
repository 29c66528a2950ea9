// Ports for servers that cannot choose one themselves. They are below those that the system gives to others, and each process has a range of its
// own, so that no other test takes one before its server listens.
import { once } from 'node:events';
import { createServer } from 'node:net';

const lowest = 12_000;
/** Below 32768, where the ports begin that Linux gives to connections and to servers on port 0. */
const count = 20_000;
const portsEachProcess = 200;

let next = (process.pid * portsEachProcess) % count;

/** @returns ports on which nothing listens; each is returned once. */
export async function freePorts(wanted: number): Promise<number[]> {
  const ports: number[] = [];
  for (let tried = 0; ports.length < wanted && tried < count; tried++) {
    const port = lowest + next;
    next = (next + 1) % count;
    if (await isFree(port)) ports.push(port);
  }
  if (ports.length < wanted) throw new Error('no port is free');
  return ports;
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const opened = once(server, 'listening').then(
    () => true,
    () => false,
  );
  server.listen(port, '127.0.0.1');
  if (!(await opened)) return false;
  server.close();
  await once(server, 'close');
  return true;
}
