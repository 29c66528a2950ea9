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
export function measureInTurns(
  turns: Turns,
  [name, baselineName]: readonly [string, string],
  target?: (ratio: number) => Target,
): readonly [Measure, Measure] {
  const measuredTurns = turns.get(name) as readonly Turn[];
  const baselineTurns = turns.get(baselineName) as readonly Turn[];
  const measure = (what: string, unit: string, serviceValue: (turn: Turn) => number): Measure => {
    const ratios = measuredTurns.map((turn, i) => serviceValue(turn) / serviceValue(baselineTurns[i] as Turn));
    return {
      what,
      unit,
      value: median(measuredTurns.map(serviceValue)),
      baseline: { what: baselineName, value: median(baselineTurns.map(serviceValue)) },
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
