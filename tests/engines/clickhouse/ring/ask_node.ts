// Statements to a node of a cluster itself, past the server of Tabularium.
import assert from 'node:assert/strict';
import type { RingNode } from './ring.ts';

/** @returns the trimmed text of the response, which succeeds. */
export async function askNode(node: Pick<RingNode, 'url'> | undefined, sql: string): Promise<string> {
  const response = await fetch(node?.url ?? '', { method: 'POST', body: sql });
  const text = (await response.text()).trim();
  assert.equal(response.status, 200, text);
  return text;
}

/** Removes the copy that a node has of the only dropped table that can be restored. */
export async function dropHidden(node: Pick<RingNode, 'url'> | undefined): Promise<void> {
  const where = "startsWith(database, '_tabularium_')";
  const found = await askNode(node, `SELECT database, name FROM system.tables WHERE ${where} FORMAT TSVRaw`);
  const [[database, name] = [], ...others] = found.split('\n').map((line) => line.split('\t'));
  assert.deepEqual(others, [], found);
  await askNode(node, `DROP TABLE \`${database}\`.\`${name}\` SYNC`);
}
