// Faults of clusters at random instants, while clients work. Several installations run side by side, because most of a fault is a wait.
import { type ClusterKind, missingCluster } from '../faults/cluster/cluster_world.ts';
import { noDecommissions } from '../faults/cluster/decommissioner.ts';
import { noProbes } from '../faults/cluster/prober.ts';
import { type FaultRunReport, runRandomFaults } from '../faults/cluster/random_faults.ts';
import { Random } from '../random.ts';
import { exitListenersEach, problemsMax, type SideBySide } from './cluster_steps.ts';
import { noCounts } from './worker.ts';

/** With one installation. */
const faultsEach = 25;

class Totals {
  faults = 0;
  clearedMsMax = 0;
  readonly byName: Record<string, number> = {};
  readonly counts = noCounts();
  readonly probes = { ...noProbes(), moves: 0, backups: 0 };
  readonly decommissions = noDecommissions();

  add(report: FaultRunReport): void {
    this.faults += report.faults;
    this.clearedMsMax = Math.max(this.clearedMsMax, report.clearedMsMax);
    for (const [name, count] of Object.entries(report.byName)) this.byName[name] = (this.byName[name] ?? 0) + count;
    addTo(this.counts, report.counts);
    addTo(this.probes, report.probes);
    addTo(this.decommissions, report.decommissions);
  }

  toString(): string {
    const { faults, byName, counts, probes, decommissions, clearedMsMax } = this;
    const { reads, writes, changes, moves, backups, refused, unanswered } = probes;
    const { acknowledged, tasks, rows } = counts;
    return `${faults} faults of ${Object.keys(byName).length} kinds; ${acknowledged} changes and ${tasks} tasks acknowledged, ${rows} rows; ${reads} right reads, ${writes} inserts, ${changes} changes of tables, ${moves} moves of a catalog, ${backups} backups of one and ${decommissions.completed} decommissions (${decommissions.cancelled} cancelled) beside them, ${refused + unanswered} refused or unanswered; all worked at most ${clearedMsMax} ms after the end of a fault`;
  }
}

function addTo<Key extends string>(sums: Record<Key, number>, more: Readonly<Record<Key, number>>): void {
  for (const key of Object.keys(sums) as Key[]) sums[key] += more[key];
}

export async function clusterFaults(
  kind: ClusterKind,
  { seed, deadline, parallel, problems }: SideBySide,
): Promise<string> {
  const missing = missingCluster(kind);
  if (missing) return `nothing: ${missing}`;
  const hasTime = () => Date.now() < deadline;
  const random = new Random(seed);
  const totals = new Totals();
  let rounds = 0;
  const work = async () => {
    // A round that finds something wrong ends; the next one has a new installation.
    while (hasTime() && problems.length < problemsMax) {
      const roundSeed = random.fork(rounds++).seed;
      const log = (text: string) => process.stdout.write(`${new Date().toISOString()} seed ${roundSeed}: ${text}\n`);
      const report = await runRandomFaults({ seed: roundSeed, kind, faults: faultsEach, hasTime, log });
      for (const problem of report.problems) log(`WRONG: ${problem}`);
      problems.push(...report.problems.map((problem) => `seed ${roundSeed}: ${problem}`));
      totals.add(report);
      log(`the round ended; ${totals.faults} faults in all, ${problems.length} wrong`);
    }
  };
  process.setMaxListeners(process.getMaxListeners() + exitListenersEach * parallel);
  await Promise.all(Array.from({ length: parallel }, work));
  process.stdout.write(`summary: ${JSON.stringify({ ...totals, wrong: problems.length })}\n`);
  return String(totals);
}
