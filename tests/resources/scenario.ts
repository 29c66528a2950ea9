// A scenario: one request, what the response must and must not contain, and the expected side effects. The scenarios of a list run in
// order on one server.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Code } from '../../src/standard/codes.ts';
import type { Reply, TestServer } from '../server.ts';

export interface Scenario {
  readonly name: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON; a string is sent unchanged. */
  readonly body?: unknown;
  readonly status: number;
  /** The code of a failure. */
  readonly code?: Code;
  /** Fields that the result must contain, possibly among others; arrays must match completely. */
  readonly result?: object;
  /** JSON pointer of the first violation. */
  readonly pointer?: string;
  /** Texts that the response must contain. */
  readonly contains?: readonly string[];
  /** Texts that must not occur in the response. */
  readonly excludes?: readonly string[];
  /** Side effects. */
  readonly afterwards?: (server: TestServer, reply: Reply) => Promise<void>;
}

/** No response may reveal internals: file paths, stacks, the engine's own table names. */
const secrets = ['/tmp/', 'node_modules', '.ts:', '    at ', 'tabularium-test'];

export async function runScenario(server: TestServer, scenario: Scenario): Promise<Reply> {
  const {
    method,
    url,
    headers,
    body,
    status,
    code,
    result,
    pointer,
    contains: says = [],
    excludes: without = [],
    afterwards,
  } = scenario;
  const reply = await server.request(method, url, {
    ...(headers ? { headers } : {}),
    ...(body === undefined ? {} : { body }),
  });
  reply.is(status, code);
  if (result !== undefined) includes(reply.result, result, reply.text);
  if (pointer !== undefined) assert.equal(reply.at('violations', 0, 'pointer'), pointer, reply.text);
  for (const text of says) assert.ok(reply.text.includes(text), `${reply.request} does not say ${text}: ${reply.text}`);
  for (const text of [...without, ...secrets])
    assert.ok(!reply.text.includes(text), `${reply.request} says ${text}: ${reply.text.slice(0, 1000)}`);
  await afterwards?.(server, reply);
  return reply;
}

/** Objects may have more fields than expected, but arrays no more items. */
function includes(actual: unknown, expected: unknown, text: string): void {
  if (Array.isArray(expected)) {
    assert.ok(Array.isArray(actual) && actual.length === expected.length, `${JSON.stringify(expected)}: ${text}`);
    for (const [i, value] of expected.entries()) includes(actual[i], value, text);
  } else if (typeof expected === 'object' && expected !== null) {
    for (const [key, value] of Object.entries(expected)) {
      assert.ok(typeof actual === 'object' && actual !== null, `${key}: ${text}`);
      includes((actual as Record<string, unknown>)[key], value, text);
    }
  } else assert.deepEqual(actual, expected, text.slice(0, 2000));
}

export function scenarios(server: () => TestServer, list: readonly Scenario[]): void {
  for (const scenario of list) test(scenario.name, async () => void (await runScenario(server(), scenario)));
}
