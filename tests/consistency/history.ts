// Checks a history of list appends and reads for strict serializability, like Elle (Kingsbury and Alvaro, 2020): the returned lists
// give the order of the writes of each key; together with reads-from and real-time order they form a graph of which operation must
// precede which, and a cycle in it is an anomaly.

export interface Operation {
  readonly name: string;
  /** On one clock; `end` is infinite if there was no response. */
  readonly start: number;
  readonly end: number;
  /** `unknown`: it may have been applied. A failed one must not have been. */
  readonly outcome: 'ok' | 'failed' | 'unknown';
  /** Each value is unique in the history; one operation appends to several keys or none, at once. */
  readonly appends: ReadonlyMap<string, number>;
  /** The complete lists that a successful read returned. */
  readonly reads: ReadonlyMap<string, readonly number[]>;
}

/** Descriptions; empty if the history is strictly serializable. */
export function findAnomalies(history: readonly Operation[]): string[] {
  const orders = longestReads(history);
  const local = [...incompatibleReads(history, orders), ...wrongValues(history, orders)];
  // Without a single order of the writes there is no graph.
  return local.length > 0 ? local : cycles(history, orders);
}

/** The last observed state of each key: the order of its writes. */
function longestReads(history: readonly Operation[]): Map<string, readonly number[]> {
  const longest = new Map<string, readonly number[]>();
  for (const { reads } of history)
    for (const [key, list] of reads) if (list.length > (longest.get(key)?.length ?? -1)) longest.set(key, list);
  return longest;
}

function incompatibleReads(history: readonly Operation[], orders: ReadonlyMap<string, readonly number[]>): string[] {
  return history.flatMap(({ name, reads }) =>
    [...reads].flatMap(([key, list]) => {
      const order = orders.get(key) ?? [];
      return list.every((value, i) => value === order[i])
        ? []
        : [`${name} read ${key} as [${list}], another read as [${order}]: neither continues the other`];
    }),
  );
}

function wrongValues(history: readonly Operation[], orders: ReadonlyMap<string, readonly number[]>): string[] {
  const anomalies: string[] = [];
  const writers = writersOf(history);
  for (const [key, order] of orders) {
    for (const [i, value] of order.entries()) {
      if (order.indexOf(value) !== i) anomalies.push(`${value} is in ${key} twice: done twice`);
      const writer = writers.get(`${key} ${value}`);
      if (!writer) anomalies.push(`${value} is in ${key}, and nobody appended it`);
      else if (writer.outcome === 'failed') anomalies.push(`${value} is in ${key}, though ${writer.name} failed`);
    }
  }
  return anomalies;
}

function writersOf(history: readonly Operation[]): Map<string, Operation> {
  return new Map(
    history.flatMap((operation) =>
      [...operation.appends].map(([key, value]) => [`${key} ${value}`, operation] as const),
    ),
  );
}

/**
 * Edges: from the writer of a value to the writer of the next one, to each read that ends with it, and from such a read to the
 * writer of the next one; and from the end of an operation to those that began later, through time nodes, which avoids n² edges.
 */
function cycles(history: readonly Operation[], orders: ReadonlyMap<string, readonly number[]>): string[] {
  const placed = new Set([...orders].flatMap(([key, order]) => order.map((value) => `${key} ${value}`)));
  // Operations that nobody can have observed explain nothing: failed ones, and unknown ones without a trace.
  const nodes = history.filter(
    ({ outcome, appends }) =>
      outcome === 'ok' || (outcome === 'unknown' && [...appends].some(([key, value]) => placed.has(`${key} ${value}`))),
  );
  const edges: Set<number>[] = nodes.map(() => new Set());
  const indexOf = new Map(nodes.map((node, i) => [node, i]));
  const writers = writersOf(history);
  const link = (from: Operation | undefined, to: Operation | undefined) => {
    const [a, b] = [from && indexOf.get(from), to && indexOf.get(to)];
    if (a !== undefined && b !== undefined && a !== b) edges[a]?.add(b);
  };
  const writer = (key: string, value: number | undefined) => writers.get(`${key} ${value}`);
  for (const [key, order] of orders)
    for (let i = 0; i + 1 < order.length; i++) link(writer(key, order[i]), writer(key, order[i + 1]));
  for (const node of nodes)
    for (const [key, list] of node.reads) {
      link(writer(key, list.at(-1)), node);
      const order = orders.get(key) ?? [];
      link(node, writer(key, order[list.length]));
    }
  // An acknowledged append that is missing in the longest list came after all reads of its key.
  for (const node of nodes)
    for (const [key, value] of node.appends)
      if (!placed.has(`${key} ${value}`)) for (const read of nodes) if (read.reads.has(key)) link(read, node);
  linkTimes(nodes, edges);
  return components(edges).map((component) => {
    const names = component.flatMap((i) => nodes[i]?.name ?? []);
    return `no order explains ${names.join('; ')}`;
  });
}

/** Appends time nodes to `edges`, from the earliest on: an end leads to the next node, which leads to all later beginnings. */
function linkTimes(nodes: readonly Operation[], edges: Set<number>[]): void {
  const events = nodes.flatMap((node, i) => [
    { at: node.start, i, isEnd: false },
    ...(node.end === Number.POSITIVE_INFINITY ? [] : [{ at: node.end, i, isEnd: true }]),
  ]);
  events.sort((a, b) => a.at - b.at || Number(a.isEnd) - Number(b.isEnd));
  let last: number | undefined;
  for (const { i, isEnd } of events) {
    if (!isEnd) {
      if (last !== undefined) edges[last]?.add(i);
      continue;
    }
    const time = edges.push(new Set()) - 1;
    edges[i]?.add(time);
    if (last !== undefined) edges[last]?.add(time);
    last = time;
  }
}

/** Strongly connected components of more than one node (Tarjan), without recursion: histories are longer than the call stack allows. */
function components(edges: readonly ReadonlySet<number>[]): number[][] {
  const index = new Array<number>(edges.length).fill(-1);
  const low = new Array<number>(edges.length).fill(0);
  const isOpen = new Array<boolean>(edges.length).fill(false);
  const open: number[] = [];
  const strong: number[][] = [];
  let count = 0;
  for (let root = 0; root < edges.length; root++) {
    if (index[root] !== -1) continue;
    const path: { readonly node: number; readonly next: Iterator<number> }[] = [];
    const enter = (node: number) => {
      index[node] = count;
      low[node] = count++;
      isOpen[node] = true;
      open.push(node);
      path.push({ node, next: (edges[node] as ReadonlySet<number>).values() });
    };
    enter(root);
    for (let top = path.at(-1); top; top = path.at(-1)) {
      const { node } = top;
      const step = top.next.next();
      if (!step.done) {
        if (index[step.value] === -1) enter(step.value);
        else if (isOpen[step.value]) low[node] = Math.min(low[node] as number, index[step.value] as number);
        continue;
      }
      path.pop();
      const parentNode = path.at(-1)?.node;
      if (parentNode !== undefined) low[parentNode] = Math.min(low[parentNode] as number, low[node] as number);
      if (low[node] !== index[node]) continue;
      const component = open.splice(open.indexOf(node));
      for (const member of component) isOpen[member] = false;
      if (component.length > 1) strong.push(component);
    }
  }
  return strong;
}
