// A node behind a proxy of its HTTP interface that cuts it off in the moment when a certain statement arrives.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';

export interface CuttingProxy {
  readonly url: string;
  /** From the first statement on that matches, which does not arrive, nothing gets through. */
  cutAt(pattern: RegExp): void;
  /** The next statement that matches arrives once this has resolved. */
  holdOnce(pattern: RegExp, until: () => Promise<unknown>): void;
  /** The answer of the next statement that matches is lost, once this has resolved. */
  loseAnswerOnce(pattern: RegExp, meanwhile: () => Promise<unknown>): void;
  /** Whether such a statement came. */
  readonly isCut: boolean;
  /** The next query that matches finds no rows. Its text is the body of its request. */
  emptyOnce(pattern: RegExp): void;
  mend(): void;
  close(): void;
}

export async function startCuttingProxy(target: string): Promise<CuttingProxy> {
  let isCut = false;
  let cutAt: RegExp | undefined;
  let empty: RegExp | undefined;
  const held = new Map<RegExp, () => Promise<unknown>>();
  const lost = new Map<RegExp, () => Promise<unknown>>();
  const takeOf = (waits: typeof held, statement: string): (() => Promise<unknown>) | undefined => {
    const pattern = waits.keys().find((each) => each.test(statement));
    const until = pattern && waits.get(pattern);
    if (pattern) waits.delete(pattern);
    return until;
  };
  const forward = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    let body = Buffer.concat(chunks);
    const text = request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
    const statement = decodeURIComponent((request.url ?? '').replaceAll('+', ' ')) + text.toString();
    if (cutAt?.test(statement)) isCut = true;
    if (isCut) return response.destroy();
    if (empty?.test(statement)) {
      empty = undefined;
      body = Buffer.from(body.toString().replace('WHERE', 'WHERE 0 AND'));
    }
    await takeOf(held, statement)?.();
    const headers = Object.entries(request.headers).filter(([name]) => !hopHeaders.has(name)) as [string, string][];
    const answer = await fetch(`${target}${request.url}`, { method: request.method ?? 'POST', headers, body });
    const kept = [...answer.headers].filter(([name]) => !hopHeaders.has(name));
    const answered = Buffer.from(await answer.arrayBuffer());
    const meanwhile = takeOf(lost, statement);
    await meanwhile?.();
    if (isCut || meanwhile) return response.destroy();
    return response.writeHead(answer.status, Object.fromEntries(kept)).end(answered);
  };
  const server = createServer(
    (request, response) => void forward(request, response).catch(() => void response.destroy()),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cutAt(pattern) {
      cutAt = pattern;
    },
    holdOnce(pattern, until) {
      held.set(pattern, until);
    },
    loseAnswerOnce(pattern, meanwhile) {
      lost.set(pattern, meanwhile);
    },
    get isCut() {
      return isCut;
    },
    emptyOnce(pattern) {
      empty = pattern;
    },
    mend() {
      cutAt = undefined;
      held.clear();
      lost.clear();
      isCut = false;
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

const hopHeaders: ReadonlySet<string> = new Set([
  'connection',
  'host',
  'content-length',
  'transfer-encoding',
  'keep-alive',
]);
