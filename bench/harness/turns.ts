// More than two that are measured turn by turn: each round measures every one, each beside the baseline of that round.
import { type Measure, median, type Target } from './report.ts';

/** What one turn yields. */
export interface Turn {
  readonly perSecond: number;
  /** Of processor time, of one request. */
  readonly microseconds: number;
}

export interface Contender {
  readonly name: string;
  readonly run: (round: number) => Promise<Turn>;
}

export type Turns = ReadonlyMap<string, readonly Turn[]>;

/** Who begins changes from round to round, so that nobody always meets the machine as the same other left it. */
export async function inTurns(rounds: number, contenders: readonly Contender[]): Promise<Turns> {
  const turns = new Map<string, Turn[]>(contenders.map(({ name }) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    const from = (round * 3) % contenders.length;
    for (const { name, run } of [...contenders.slice(from), ...contenders.slice(0, from)])
      turns.get(name)?.push(await run(round));
  }
  return turns;
}

/** Requests a second, and the processor time of one, of a contender beside another of the same rounds. */
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
