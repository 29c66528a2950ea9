// The plan: the steps from what the server has to what the files declare, what is not declared, and what cannot be reached.

import type { DeclaredCategory } from '../../../api/declare.ts';
import { compareNames } from '../../../model/names.ts';
import type { Declaration, Fields, Place } from '../files/declaration.ts';

export interface Size {
  readonly rows: number | null;
  /** On disk. */
  readonly bytes: number | null;
}

/** A line of the plan. `from` and `to` never have secrets. */
export interface Difference {
  readonly sign: '+' | '-' | '~';
  readonly field: string;
  readonly from?: string;
  readonly to?: string;
}

export type StepAction = 'create' | 'change' | 'rewrite' | 'rename' | 'drop';

/** The order of steps: nothing is changed before what it needs exists, and nothing is dropped before what reads it is gone or changed. */
const phases = [
  'revoke',
  'drop views',
  'rename catalogs',
  'rename databases',
  'rename objects',
  'rename columns',
  'catalogs',
  'databases',
  'tables',
  'views',
  'drop columns',
  'drop tables',
  'drop databases',
  'roles',
  'grants',
  'schedules',
] as const;
export type Phase = (typeof phases)[number];

/** What is planned in these phases is compared in parallel, and needs no order: it gets that of the files, so that a plan reads the same each time. */
const unordered: ReadonlySet<Phase> = new Set([
  'rename objects',
  'rename columns',
  'tables',
  'drop columns',
  'drop tables',
  'drop databases',
  'schedules',
]);

/** An object that a step changes, as it was when the plan was made. */
export interface Expected {
  /** The same for all steps on one object. */
  readonly key: string;
  /** At the time of the step, after the renames before it. */
  readonly uri: string;
  readonly record: Fields;
}

export interface Step {
  readonly action: StepAction;
  readonly phase: Phase;
  readonly title: string;
  readonly place?: Place | undefined;
  readonly differences: readonly Difference[];
  /** Of the data that is rewritten or dropped. */
  readonly size?: Size | undefined;
  readonly category: DeclaredCategory;
  readonly operation: string;
  /** The path of the request, up to its action. */
  readonly uri: string;
  readonly fields: Fields;
  readonly expected?: Expected | undefined;
}

export interface Undeclared {
  readonly title: string;
  readonly size?: Size | undefined;
}

export interface Refusal {
  readonly place: Place;
  readonly title: string;
  readonly message: string;
}

export interface Plan {
  readonly steps: readonly Step[];
  /** What the files do not declare in the namespaces that they declare; `--prune` drops it. */
  readonly undeclared: readonly Undeclared[];
  readonly refusals: readonly Refusal[];
  /** What a person should know before the plan is carried out. */
  readonly notes: readonly string[];
}

/** Collects a plan. */
export class PlanBuilder {
  readonly #steps: Step[] = [];
  readonly undeclared: Undeclared[] = [];
  readonly refusals: Refusal[] = [];
  readonly notes: string[] = [];

  add(step: Step): void {
    this.#steps.push(step);
  }

  refuse({ place }: Pick<Declaration, 'place'>, title: string, message: string): void {
    this.refusals.push({ place, title, message });
  }

  built(): Plan {
    const order = (step: Step): number => phases.indexOf(step.phase);
    const steps = this.#steps.toSorted(
      (a, b) => order(a) - order(b) || (unordered.has(a.phase) ? compareWritten(a, b) : 0),
    );
    const refusals = this.refusals.toSorted((a, b) => comparePlaces(a.place, b.place));
    const undeclared = this.undeclared.toSorted((a, b) => compareNames(a.title, b.title));
    return { steps, undeclared, refusals, notes: this.notes };
  }
}

const comparePlaces = (a: Place, b: Place): number =>
  compareNames(a.file, b.file) || a.line - b.line || a.column - b.column;

/** What is not declared follows, in the order of its titles. The steps of one object stay in theirs. */
function compareWritten(a: Step, b: Step): number {
  if (a.place && b.place) return comparePlaces(a.place, b.place);
  return a.place || b.place ? Number(!a.place) - Number(!b.place) : compareNames(a.title, b.title);
}

export function sizeOf({ statistics }: Fields): Size {
  const { rowCount = null, dataBytes = null } = (statistics ?? {}) as {
    rowCount?: number | null;
    dataBytes?: number | null;
  };
  return { rows: rowCount, bytes: dataBytes };
}

/** Of several tables; unknown if one of them is. */
export function totalSize(sizes: readonly Size[]): Size {
  const sum = (values: readonly (number | null)[]) =>
    values.reduce<number | null>(
      (total, value) => (total === null || value === null ? null : total + Number(value)),
      0,
    );
  return { rows: sum(sizes.map(({ rows }) => rows)), bytes: sum(sizes.map(({ bytes }) => bytes)) };
}
