// Names of parts, which say what rows a part has: the blocks of inserts from a first to a last one, and the mutations that it has been
// through.

interface Part {
  readonly partition: string;
  readonly firstBlock: bigint;
  readonly lastBlock: bigint;
  readonly level: bigint;
  /** The last mutation that was applied; 0 if none was. */
  readonly mutation: bigint;
}

const partPattern = /^([^_]+)_(\d+)_(\d+)_(\d+)(?:_(\d+))?$/;

function partOf(name: string): Part | undefined {
  const [, partition, first, last, level, mutation = '0'] = partPattern.exec(name) ?? [];
  if (partition === undefined || first === undefined || last === undefined || level === undefined) return undefined;
  return {
    partition,
    firstBlock: BigInt(first),
    lastBlock: BigInt(last),
    level: BigInt(level),
    mutation: BigInt(mutation),
  };
}

const covers = (part: Part, other: Part): boolean =>
  part.partition === other.partition &&
  part.firstBlock <= other.firstBlock &&
  part.lastBlock >= other.lastBlock &&
  part.level >= other.level &&
  part.mutation >= other.mutation;

/** The parts of `needed` whose rows are in none of `present`. A name that cannot be read is covered by itself only. */
export function missingParts(needed: readonly string[], present: readonly string[]): string[] {
  const names = new Set(present);
  const byPartition = Map.groupBy(
    present.flatMap((name) => partOf(name) ?? []),
    ({ partition }) => partition,
  );
  return needed.filter((name) => {
    if (names.has(name)) return false;
    const part = partOf(name);
    return !part || !byPartition.get(part.partition)?.some((other) => covers(other, part));
  });
}
