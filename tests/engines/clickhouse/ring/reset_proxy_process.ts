// The proxy of a node (reset_proxy.ts) on another host, in a process of its own that ends with the one that started it:
// `reset_proxy_process.ts ADDRESS PORT TARGET`.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { type ResetProxy, startResetProxy } from './reset_proxy.ts';
import type { RingHost } from './ring.ts';

const program = fileURLToPath(import.meta.url);

/** @param target the native port of the node; `port`: that of the proxy. Both are free. */
export async function startProxyOnHost(
  { address, enter }: RingHost,
  target: number,
  port: number,
): Promise<ResetProxy> {
  const own = [process.execPath, program, address, String(port), String(target)];
  const [command = '', ...words] = [...enter, 'setpriv', '--pdeathsig=KILL', ...own];
  const child: ChildProcess = spawn(command, words, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(() => Promise.reject(new Error('the proxy of a node ended'))),
  ]);
  child.disconnect();
  child.unref();
  return { port, close: () => void child.kill('SIGKILL') };
}

if (process.argv[1] === program) {
  const [address = '', port, target] = process.argv.slice(2);
  const proxy = await startResetProxy(Number(target), { address, port: Number(port) });
  process.send?.('ready');
  // It has no other reason to continue.
  setInterval(() => proxy.port, 2 ** 30);
}
