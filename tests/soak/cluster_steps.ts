// Faults at the steps of changes and of decommissions of clusters, in random order. Several installations take them from one list, because a step
// mostly waits.

import { type ClusterKind, missingCluster } from '../faults/cluster/cluster_world.ts';
import { allDecommissionSteps, strikeDecommissions } from '../faults/cluster/decommission_steps.ts';
import { ReachedSteps, type StepsReport } from '../faults/cluster/step_faults.ts';
import { allClusterSteps, strikeAtSteps } from '../faults/cluster/steps.ts';
import { Random } from '../random.ts';

export interface SideBySide {
  readonly seed: number;
  readonly deadline: number;
  /** How many installations there are at a time. */
  readonly parallel: number;
  /** What was wrong is added to it. */
  readonly problems: string[];
}

/** With one installation. */
const clusterStepsEach = 150;
const decommissionStepsEach = 50;
/** A run continues after it finds something wrong, up to this many times. */
export const problemsMax = 100;
/** Each process and each network of an installation ends with this process. */
export const exitListenersEach = 20;

export async function clusterSteps(kind: ClusterKind, run: SideBySide): Promise<string> {
  const missing = missingCluster(kind);
  if (missing) return `nothing: ${missing}`;
  const reached = new ReachedSteps();
  const { struck, tried, all } = await strike(run, {
    steps: allClusterSteps(kind),
    each: clusterStepsEach,
    strikeSome: (some, random, log) => strikeAtSteps(some, { kind, random, log, reached }),
  });
  return `${struck} faults at steps of changes (${tried} of ${all} steps tried or known to be none)`;
}

export async function decommissionSteps(run: SideBySide): Promise<string> {
  const missing = missingCluster('replicated');
  if (missing) return `nothing: ${missing}`;
  const reached = new ReachedSteps();
  const { struck, tried, all } = await strike(run, {
    steps: allDecommissionSteps,
    each: decommissionStepsEach,
    strikeSome: (some, random, log) => strikeDecommissions(some, { random, log, reached }),
  });
  return `${struck} faults at steps of decommissions and their cancellations (${tried} of ${all} steps tried or known to be none)`;
}

interface Strikes<Step> {
  readonly steps: readonly Step[];
  /** With one installation. */
  readonly each: number;
  strikeSome(some: Iterable<Step>, random: Random, log: (text: string) => void): Promise<StepsReport>;
}

async function strike<Step>(
  { seed, deadline, parallel, problems }: SideBySide,
  { steps, each, strikeSome }: Strikes<Step>,
): Promise<{ readonly struck: number; readonly tried: number; readonly all: number }> {
  const random = new Random(seed);
  const left = random.shuffled(steps);
  const all = left.length;
  let struck = 0;
  const hasTime = () => Date.now() < deadline && problems.length < problemsMax;
  function* some() {
    for (let n = 0; n < each && hasTime(); n++) {
      const step = left.pop();
      if (step === undefined) return;
      yield step;
    }
  }
  const log = (text: string) => void process.stdout.write(`${new Date().toISOString()} ${text}\n`);
  const work = async (installation: number) => {
    const prefix = parallel > 1 ? `${installation}: ` : '';
    // After a problem the installation is a new one.
    while (left.length > 0 && hasTime()) {
      const report = await strikeSome(some(), random, (text) => log(`${prefix}${text}`));
      problems.push(...report.problems);
      struck += report.struck;
      // Printed early, so that a run that is stopped has shown what it found.
      for (const problem of report.problems) log(`${prefix}WRONG: ${problem}`);
      log(`${prefix}${all - left.length} of ${all} steps, ${struck} reached, ${problems.length} wrong`);
    }
  };
  process.setMaxListeners(process.getMaxListeners() + exitListenersEach * parallel);
  await Promise.all(Array.from({ length: parallel }, (_, index) => work(index + 1)));
  return { struck, tried: all - left.length, all };
}
