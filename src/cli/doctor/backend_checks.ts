// Whether the servers of clusters that are registered in the store accept connections.
import { connect } from 'node:net';
import { type Finding, good, wrong } from './finding.ts';

const connectMs = 3_000;

/** A row of the store. */
export interface StoredBackend {
  readonly name: string;
  readonly spec: string;
}

/** Servers of clusters have a URL; processes of this server have none. */
export async function backendFindings(backends: readonly StoredBackend[]): Promise<readonly Finding[]> {
  const found = await Promise.all(
    backends.map(async ({ name, spec }) => {
      const { location = '', disabled = false } = JSON.parse(spec) as { location?: string; disabled?: boolean };
      const url = URL.parse(location);
      if (!url || url.hostname === '' || disabled) return undefined;
      const reason = await unreachable(url);
      const check = `backend ${name}`;
      return reason === undefined
        ? good(check, `${url.host} accepts connections`)
        : wrong(
            check,
            `${url.host} does not accept connections (${reason}): start it, or take it out of service with \`tabularium backends disable\``,
          );
    }),
  );
  return found.filter((finding) => finding !== undefined);
}

/** The reason; undefined: it accepts connections. */
function unreachable({ hostname, port, protocol }: URL): Promise<string | undefined> {
  const fallback = protocol === 'https:' ? 443 : 80;
  return new Promise((done) => {
    const socket = connect({
      host: hostname.replace(/^\[|\]$/g, ''),
      port: Number(port) || fallback,
      timeout: connectMs,
    });
    const end = (reason: string | undefined) => {
      socket.destroy();
      done(reason);
    };
    socket.once('connect', () => end(undefined));
    socket.once('timeout', () => end(`no answer within ${connectMs} ms`));
    socket.once('error', ({ code = 'unknown error' }: NodeJS.ErrnoException) => end(code));
  });
}
