// Warehouses made from another one pass on what they do not replace: also methods of its class, and those that the port gets later.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { engineWith } from '../../src/engines/derived_engine.ts';

class Counter {
  #count = 0;
  get count() {
    return this.#count;
  }
  add(n: number): number {
    this.#count += n;
    return this.#count;
  }
  reset = () => {
    this.#count = 0;
  };
}

test('members of the class and of the object are passed on, also through two wrappers', () => {
  const counter = new Counter();
  const wrapped = engineWith(engineWith(counter, {}), {});
  assert.equal(wrapped.add(2), 2);
  assert.deepEqual([counter.count, wrapped.count], [2, 2]);
  wrapped.reset();
  assert.equal(counter.count, 0);
});

test('a member is replaced, and the others are wrapped', () => {
  const counter = new Counter();
  let calls = 0;
  const replaced = { add: (n: number) => counter.add(10 * n) };
  const wrapped = engineWith(counter, replaced, (method) => (...parameters) => {
    calls++;
    return method(...parameters);
  });
  assert.equal(wrapped.add(1), 10);
  wrapped.reset();
  assert.deepEqual([counter.count, calls], [0, 1]);
});
