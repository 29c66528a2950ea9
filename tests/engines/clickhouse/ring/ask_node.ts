// A statement to a node of a cluster itself, past the server of Tabularium.
import assert from 'node:assert/strict';
import type { RingNode } from './ring.ts';

/** @returns the trimmed text of the response, which succeeds. */
export async function askNode(node: Pick<RingNode, 'url'> | undefined, sql: string): Promise<string> {
  const response = await fetch(node?.url ?? '', { method: 'POST', body: sql });
  const text = (await response.text()).trim();
  assert.equal(response.status, 200, text);
  return text;
}
