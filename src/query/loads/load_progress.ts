// Progress of a load: its file is fetched, unpacked and read. Stages that do not apply are omitted, and each stage counts as an equal
// share of the total.
export type LoadStage = 'fetching' | 'unpacking' | 'reading';

type Report = (fraction: number, text: string) => void;

export class LoadProgress {
  readonly #stages: readonly LoadStage[];
  readonly #report: Report;
  #reached = 0;

  /** `stages`: the stages of this load, in order. */
  constructor(stages: readonly LoadStage[], report: Report) {
    this.#stages = stages;
    this.#report = report;
  }

  /** Progress never decreases: a file of unknown size may turn out to be read already. */
  update(stage: LoadStage, doneBytes: number, totalBytes: number | undefined): void {
    const stageFraction = totalBytes === undefined || totalBytes === 0 ? 0 : Math.min(1, doneBytes / totalBytes);
    const fraction = (this.#stages.indexOf(stage) + stageFraction) / this.#stages.length;
    this.#reached = Math.max(this.#reached, fraction);
    const total = totalBytes === undefined ? '' : ` of ${totalBytes}`;
    this.#report(this.#reached, `${stage}: ${Math.round(doneBytes)}${total} bytes`);
  }
}
