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

/** Removes the copy that a node has of a dropped table that can be restored: of the one that was created last. */
export async function dropHidden(node: Pick<RingNode, 'url'> | undefined): Promise<void> {
  const hidden = "SELECT database, name FROM system.tables WHERE startsWith(database, '_tabularium_')";
  // The names are ids, in the order in which the tables were created.
  const found = await askNode(node, `${hidden} ORDER BY name DESC LIMIT 1 FORMAT TSVRaw`);
  const [database, name] = found.split('\t');
  await askNode(node, `DROP TABLE \`${database}\`.\`${name}\` SYNC`);
}
