// Measures more than two variants in turns: each round measures every variant, each compared with the baseline of that round.
import { type Measure, median, type Target } from './report.ts';

/** The result of one turn. */
export interface Turn {
  readonly perSecond: number;
  /** Processor time of one request. */
  readonly microseconds: number;
}

export interface Contender {
  readonly name: string;
  readonly run: (round: number) => Promise<Turn>;
}

export type Turns = ReadonlyMap<string, readonly Turn[]>;

/** The order changes from round to round, so that no variant always follows the same other one. */
export async function inTurns(rounds: number, contenders: readonly Contender[]): Promise<Turns> {
  const turns = new Map<string, Turn[]>(contenders.map(({ name }) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    const from = (round * 3) % contenders.length;
    for (const { name, run } of [...contenders.slice(from), ...contenders.slice(0, from)])
      turns.get(name)?.push(await run(round));
  }
  return turns;
}

/** Requests per second, and the processor time of one, of a variant compared with another of the same rounds. */
export function besides(
  turns: Turns,
  [name, against]: readonly [string, string],
  target?: (ratio: number) => Target,
): readonly [Measure, Measure] {
  const ours = turns.get(name) as readonly Turn[];
  const theirs = turns.get(against) as readonly Turn[];
  const measure = (what: string, unit: string, of: (turn: Turn) => number): Measure => {
    const ratios = ours.map((turn, i) => of(turn) / of(theirs[i] as Turn));
    return {
      what,
      unit,
      value: median(ours.map(of)),
      baseline: { what: against, value: median(theirs.map(of)) },
      ratio: median(ratios),
      ratioRange: [Math.min(...ratios), Math.max(...ratios)],
    };
  };
  const rate = measure(name, 'requests/s', (turn) => turn.perSecond);
  return [
    target ? { ...rate, target: target(rate.ratio as number) } : rate,
    measure('- processor time of one', 'µs', (turn) => turn.microseconds),
  ];
}
