// The store, in which the credentials of a warehouse are, does not answer: its servers do, and are known to.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openEngine, rowsOf } from '../../conformance/engine/engine_world.ts';
import { eventually } from '../../deadline.ts';
import { accessTo, engineOn } from './engine.ts';
import { missingRing, startRing } from './ring/ring.ts';

/** Longer than credentials are used without being read again. */
const awayMs = 6000;

test('servers stay available while the credentials cannot be read', { skip: missingRing }, async () => {
  const ring = await startRing(1);
  try {
    const access = accessTo(ring.nodes);
    let isLost = false;
    const credentials = () => (isLost ? new Promise<never>(() => undefined) : access.credentials());
    const world = await openEngine({}, engineOn({ ...access, credentials }, ring.nodes));
    try {
      isLost = true;
      const since = Date.now();
      await eventually(
        'the server is checked',
        () => Date.parse(world.engine.status('node1').lastHeartbeatAt ?? '') > since + awayMs,
      );
      assert.equal(world.engine.status('node1').availability, 'available');
      assert.deepEqual(await rowsOf(world, 'SELECT 1'), [[1]]);
    } finally {
      await world.close();
    }
  } finally {
    await ring.close();
  }
});
