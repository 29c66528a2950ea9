// Whether some order of overlapping operations explains their responses, in which none precedes one that had ended before it began
// (linearizability, by Wing and Gong's search).

export interface Operation<S> {
  /** On one clock. */
  readonly start: number;
  readonly end: number;
  readonly description: string;
  /** The state after it, if this state explains the response; undefined: it does not. */
  readonly apply: (state: S) => S | undefined;
}

export interface Explanation {
  readonly explained: boolean;
  /** Where the search advanced furthest: what could not be explained next. */
  readonly stuck: readonly string[];
}

/** `key`: a text that only equal states share. */
export function linearize<S>(operations: readonly Operation<S>[], initial: S, key: (state: S) => string): Explanation {
  const ordered = operations.toSorted((a, b) => a.start - b.start);
  const applied = new Uint8Array(ordered.length);
  const visited = new Set<string>();
  let furthest = -1;
  let stuck: string[] = [];

  /** Operations that may be next: none of the others had ended before they began. */
  const candidates = (from: number): number[] => {
    let earliestEnd = Number.POSITIVE_INFINITY;
    const path: number[] = [];
    for (let i = from; i < ordered.length; i++) {
      const operation = ordered[i] as Operation<S>;
      if (operation.start > earliestEnd) break;
      if (applied[i]) continue;
      path.push(i);
      earliestEnd = Math.min(earliestEnd, operation.end);
    }
    return path.filter((i) => (ordered[i] as Operation<S>).start <= earliestEnd);
  };

  /** An explicit stack, because histories are longer than the call stack allows. */
  const stack: { state: S; next: number[]; from: number; made: number | undefined }[] = [];
  const enter = (state: S, from: number, previous: number | undefined): void => {
    let first = from;
    while (applied[first]) first++;
    stack.push({ state, next: candidates(first), from: first, made: previous });
  };
  enter(initial, 0, undefined);
  while (stack.length > 0) {
    const frame = stack.at(-1) as (typeof stack)[number];
    if (frame.from >= ordered.length) return { explained: true, stuck: [] };
    const i = frame.next.pop();
    if (i === undefined) {
      stack.pop();
      if (frame.made !== undefined) applied[frame.made] = 0;
      continue;
    }
    const operation = ordered[i] as Operation<S>;
    const after = operation.apply(frame.state);
    if (after === undefined) {
      if (stack.length >= furthest) {
        if (stack.length > furthest) stuck = [];
        furthest = stack.length;
        if (stuck.length < 8) stuck.push(`${operation.description}, where the state was ${key(frame.state)}`);
      }
      continue;
    }
    applied[i] = 1;
    let first = frame.from;
    while (applied[first]) first++;
    const stateKey = `${first} ${windowOf(applied, first)} ${key(after)}`;
    if (visited.has(stateKey)) {
      applied[i] = 0;
      continue;
    }
    visited.add(stateKey);
    enter(after, frame.from, i);
  }
  return { explained: false, stuck };
}

/** Which operations after the first open one are done: at most those that overlap with it. */
function windowOf(applied: Uint8Array, from: number): string {
  let last = applied.length - 1;
  while (last >= from && !applied[last]) last--;
  return applied.subarray(from, last + 1).join('');
}
