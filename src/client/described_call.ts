// What a call of the client sends, and how it is written, without sending it: for programs that show the calls behind their forms.
import { type Client, clientOver } from './client.ts';
import type { Outgoing } from './transport.ts';

export interface DescribedCall {
  readonly method: Outgoing['method'];
  /** Below the URL of the server, percent-encoded. */
  readonly path: string;
  readonly body?: unknown;
  /** In TypeScript, such as `client.databases("shop").tables("orders").delete()`. */
  readonly code: string;
}

/** `call`: makes exactly one call, such as `(client) => client.users('ann').get()`. Nothing is sent. */
export function describeCall(call: (client: Client) => unknown): DescribedCall {
  let sent: Outgoing | undefined;
  const sender = {
    send: (outgoing: Outgoing) => {
      sent = outgoing;
      return new Promise<never>(() => undefined);
    },
    download: () => new Promise<never>(() => undefined),
  };
  call(clientOver(sender));
  if (!sent) throw new TypeError('no call was made');
  const { method, path, body } = sent;
  return { method, path, ...(body === undefined ? {} : { body }), code: codeOf(call) };
}

function codeOf(call: (client: Client) => unknown): string {
  let code = 'client';
  const recorder: unknown = new Proxy(() => undefined, {
    get: (_target, name) => {
      code += `.${String(name)}`;
      return recorder;
    },
    apply: (_target, _self, given: readonly unknown[]) => {
      code += `(${argumentsOf(given)
        .map((value) => literal(value))
        .join(', ')})`;
      return recorder;
    },
  });
  call(recorder as Client);
  return code;
}

/** Without omitted arguments at the end. */
const argumentsOf = (given: readonly unknown[]) => given.slice(0, given.findLastIndex((one) => one !== undefined) + 1);

const isIdentifier = /^[A-Za-z_$][\w$]*$/;
const lineCharactersMax = 60;

/** A JSON value as a literal of TypeScript; long ones have several lines. */
function literal(value: unknown, indent = ''): string {
  if (value === undefined) return 'undefined';
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const inner = `${indent}  `;
  const items = Array.isArray(value)
    ? value.map((item) => literal(item, inner))
    : Object.entries(value).flatMap(([name, member]) =>
        member === undefined
          ? []
          : [`${isIdentifier.test(name) ? name : JSON.stringify(name)}: ${literal(member, inner)}`],
      );
  const [open, close] = Array.isArray(value) ? ['[', ']'] : ['{', '}'];
  if (items.length === 0) return `${open}${close}`;
  const line = items.join(', ');
  if (line.length <= lineCharactersMax && !line.includes('\n')) return open === '[' ? `[${line}]` : `{ ${line} }`;
  return `${open}\n${items.map((item) => `${inner}${item},\n`).join('')}${indent}${close}`;
}
