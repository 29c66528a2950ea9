// Carries out a plan, one step after the other. Before a step changes an object, the object must still be as the plan has read it. Nothing is
// stored on this machine: after an interruption, the next run makes a new plan from what the server has. A request of the interrupted run can
// still be applied after that; the run then makes its plan again, and continues if only steps remain that were agreed to.
import { isDeepStrictEqual } from 'node:util';
import { TabulariumError } from '../../client/errors.ts';
import { randomId } from '../../client/random_id.ts';
import type { Runtime } from '../remote/call_options.ts';
import type { Connection } from '../remote/connection.ts';
import { CommandError } from '../remote/exit_codes.ts';
import type { Output } from '../remote/output/output.ts';
import { runCall } from '../remote/run_call.ts';
import type { Fields } from './files/declaration.ts';
import { endpointOf } from './files/kinds.ts';
import type { Expected, Plan, Step } from './plan/plan.ts';
import type { ServerReader } from './plan/server_reader.ts';

export interface PlanRun {
  readonly connection: Connection;
  readonly runtime: Runtime;
  readonly reader: ServerReader;
  readonly output: Output;
  readonly isQuiet: boolean;
}

/** A step whose object is not as the plan has read it. */
class ChangedMeanwhile extends CommandError {
  readonly step: Step;

  constructor(step: Step, reason: string) {
    const { action, title } = step;
    super(
      'differs',
      `the server was changed while the plan was carried out: cannot ${action} ${title}: ${reason}. Run the command again to see what is different now`,
    );
    this.step = step;
  }
}

export const howToContinue = 'run the same command again: it continues from what the server has';

/** `makePlan`: makes the plan again. Throws the error of the first step that fails, after a note of how to continue. */
export async function runPlan(plan: Plan, makePlan: () => Promise<Plan>, run: PlanRun): Promise<void> {
  for (let current = plan; ; ) {
    try {
      return await runSteps(current, run);
    } catch (error) {
      const rest = error instanceof ChangedMeanwhile ? await agreedRest(current, error.step, makePlan) : undefined;
      if (!rest) {
        run.output.note(howToContinue);
        throw error;
      }
      run.output.note(
        'somebody else has done this step as the files declare it, perhaps an interrupted run; continuing',
      );
      current = rest;
    }
  }
}

/** A new plan, if it is a part of what was agreed to and lacks the failed step; so each new plan is shorter than the one before. */
async function agreedRest({ steps }: Plan, failed: Step, makePlan: () => Promise<Plan>): Promise<Plan | undefined> {
  const rest = await makePlan();
  const agreed = steps.slice(steps.indexOf(failed) + 1);
  const isAgreed = ({ action, title, differences }: Step): boolean =>
    agreed.some(
      (step) => step.action === action && step.title === title && isDeepStrictEqual(step.differences, differences),
    );
  return rest.refusals.length === 0 && rest.steps.every(isAgreed) ? rest : undefined;
}

async function runSteps({ steps }: Plan, run: PlanRun): Promise<void> {
  // New for each run: with a key that followed from the plan, a step that was done, undone by hand and planned again would only be
  // answered with its first response. Within the run, a request whose response was lost is sent again with the same key.
  const id = randomId();
  const versions = new Map<string, unknown>();
  for (const [i, step] of steps.entries()) {
    run.output.note(`${i + 1} of ${steps.length}: ${step.action} ${step.title}`);
    try {
      run.runtime.signal.throwIfAborted();
      await runStep(step, `apply-${id}-${i}`, versions, run);
    } catch (error) {
      run.output.note(
        `step ${i + 1} of ${steps.length} (${step.action} ${step.title}) was not completed; the steps before it are done`,
      );
      throw isConflict(error) ? new ChangedMeanwhile(step, `${error.code}: ${error.message}`) : error;
    }
  }
}

async function runStep(
  step: Step,
  idempotencyKey: string,
  versions: Map<string, unknown>,
  { connection, runtime, reader, isQuiet }: PlanRun,
): Promise<void> {
  const { category, operation, uri, fields, expected } = step;
  const endpoint = endpointOf({ category }, operation);
  const etag = expected && (await unchangedEtag(step, expected, versions, reader));
  const action = endpoint.verb === 'action' ? `/${endpoint.action ?? operation}` : '';
  const call = {
    category,
    endpoint,
    path: `${uri}${action}`,
    fields,
    options: { idempotencyKey, quiet: isQuiet, ...(etag === undefined ? {} : { ifMatch: etag }) },
  };
  await runCall(call, connection, runtime).result();
  if (!expected || operation === 'delete') return;
  // A step that the server has done is a new version, which the next step on the object expects.
  const after = await reader.get(
    operation === 'rename' && uri === expected.uri ? renamedUri(uri, fields) : expected.uri,
  );
  versions.set(expected.key, after?.record.version);
}

const renamedUri = (uri: string, { newName }: Fields): string =>
  uri.replace(/[^/]*$/, encodeURIComponent(String(newName)));

/** The ETag of the object, if it is as the plan has read it or as the last step has left it. Throws CommandError if it is not. */
async function unchangedEtag(
  step: Step,
  { key, uri, record }: Expected,
  versions: ReadonlyMap<string, unknown>,
  reader: ServerReader,
): Promise<string | undefined> {
  const present = await reader.get(uri);
  if (!present) throw new ChangedMeanwhile(step, 'it does not exist any more');
  const version = versions.get(key) ?? record.version;
  if (present.record.version === version || isSameView(present.record, record))
    // A column has an ETag of its own.
    return step.uri === uri ? present.etag : (await reader.get(step.uri))?.etag;
  const { updatedBy, updatedAt } = present.record;
  throw new ChangedMeanwhile(step, `${String(updatedBy)} changed it at ${String(updatedAt)}`);
}

/** A view has a new version when a table that it reads is changed by a step of the plan. */
const isSameView = (present: Fields, planned: Fields): boolean =>
  typeof present.sql === 'string' &&
  ['sql', 'comment', 'properties', 'owner'].every((field) => isDeepStrictEqual(present[field], planned[field]));

const conflicts = new Set(['VERSION_CONFLICT', 'OBJECT_ALREADY_EXISTS', 'OBJECT_NOT_FOUND', 'NOT_EMPTY']);
const isConflict = (error: unknown): error is TabulariumError =>
  error instanceof TabulariumError && conflicts.has(error.code);
