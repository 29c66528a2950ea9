// Which replicas count for a statement on a server, and at which place of the definition of the cluster each other shard has one of them.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { countedReplicas } from '../../../../src/engines/clickhouse/cluster/counted_replicas.ts';
import type { ServerIdentity } from '../../../../src/model/records.ts';

const shardCount = 3;
const replicaCount = 2;
/** `2.1`: the first replica of the second shard. */
const member = (id: string, defined: Partial<ServerIdentity> = {}) => {
  const [shard = 0, position = 0] = id.split('.').map(Number);
  const cluster = { shardCount, replicaCount, memberCount: shardCount * replicaCount, replicates: true };
  return {
    shard,
    isAvailable: true,
    isDecommissioned: false,
    identity: { id, shard, replica: `r${position}`, position, ...cluster, ...defined },
  };
};
const all = ['1.1', '1.2', '2.1', '2.2', '3.1', '3.2'];
const unplaced = (id: string) => {
  const { identity, ...rest } = member(id);
  const { position: _, ...others } = identity;
  return { ...rest, identity: others };
};
const lost = { isAvailable: false };
const without = (...lost: readonly string[]) => all.filter((id) => !lost.includes(id)).map((id) => member(id));

describe('the replicas that count', () => {
  test('are not sent while all of the definition do', () => {
    assert.equal(countedReplicas(without(), member('1.1')), undefined);
  });

  test('are sent with the first place at which all other shards have one', () => {
    const { ids, first } = countedReplicas(without('2.1'), member('1.1')) ?? {};
    assert.deepEqual(
      ids,
      all.filter((id) => id !== '2.1'),
    );
    assert.equal(first, 1);
    assert.equal(countedReplicas(without('2.2'), member('1.1'))?.first, 0);
  });

  test('a server reads its own rows', () => {
    assert.equal(countedReplicas(without('1.2'), member('1.1'))?.first, 0);
    const others = without('2.1', '3.2');
    assert.equal(countedReplicas(others, member('1.1'))?.first, undefined);
    assert.equal(countedReplicas(others, member('2.2'))?.first, 0);
    assert.equal(countedReplicas(others, member('3.1'))?.first, 1);
  });

  test('are sent where one of the definition is not registered', () => {
    const others = without('3.2').map(({ identity }) => member(identity.id, { memberCount: 6 }));
    assert.deepEqual(countedReplicas(others, member('1.1'))?.ids.includes('3.2'), false);
    assert.equal(countedReplicas([member('1.1', { memberCount: 1 })], member('1.1')), undefined);
  });

  test('are sent where one is registered that the definition does not have, and another one does not count', () => {
    const further = unplaced('3.3');
    assert.equal(countedReplicas([...without(), further], member('1.1')), undefined);
    assert.equal(countedReplicas([...without('3.2'), further], member('1.1'))?.ids.length, 6);
    const disabled = [...without('3.2'), { ...member('3.2'), ...lost }, further];
    assert.deepEqual(countedReplicas(disabled, member('1.1'))?.ids.includes('3.2'), false);
    const nobodyKnows = [...all, '3.3'].map(unplaced);
    assert.equal(countedReplicas(nobodyKnows, nobodyKnows[0]), undefined);
    const [first, ...others] = nobodyKnows;
    assert.equal(countedReplicas([{ ...unplaced('1.1'), ...lost }, ...others], first)?.ids.length, 6);
    const ended = [...without(), { ...unplaced('3.3'), ...lost, isDecommissioned: true }];
    assert.equal(countedReplicas(ended, member('1.1')), undefined);
  });

  test('have no first place where definitions do not say which server is which', () => {
    const available = without('2.1').map(({ identity }) => unplaced(identity.id));
    const counted = countedReplicas(available, available[0]);
    assert.equal(counted?.ids.length, 5);
    assert.equal(counted?.first, undefined);
  });

  test('where none does, none is sent', () => {
    assert.deepEqual(countedReplicas([], undefined), { ids: [], first: undefined });
  });
});
