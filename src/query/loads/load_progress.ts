// How far a load is: its file is fetched, unpacked and read, each as far as it has to be, and each an equal part of the whole.
export type LoadStage = 'fetching' | 'unpacking' | 'reading';

type Report = (fraction: number, text: string) => void;

export class LoadProgress {
  readonly #stages: readonly LoadStage[];
  readonly #report: Report;
  #reached = 0;

  /** `stages`: those that the load has, in their order. */
  constructor(stages: readonly LoadStage[], report: Report) {
    this.#stages = stages;
    this.#report = report;
  }

  /** It never goes back: a file whose size was not known may turn out to be read already. */
  at(stage: LoadStage, doneBytes: number, totalBytes: number | undefined): void {
    const part = totalBytes === undefined || totalBytes === 0 ? 0 : Math.min(1, doneBytes / totalBytes);
    const whole = (this.#stages.indexOf(stage) + part) / this.#stages.length;
    this.#reached = Math.max(this.#reached, whole);
    const total = totalBytes === undefined ? '' : ` of ${totalBytes}`;
    this.#report(this.#reached, `${stage}: ${Math.round(doneBytes)}${total} bytes`);
  }
}
