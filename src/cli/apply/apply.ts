// One run of `apply`: reads the files, makes the plan, shows it, asks, carries it out, and checks that the state is reached.
import { createInterface } from 'node:readline/promises';
import type { CallOptions, Runtime } from '../remote/call_options.ts';
import { CommandError, exitCodes } from '../remote/exit_codes.ts';
import type { Output } from '../remote/output/output.ts';
import { exactJson } from '../remote/output/value_text.ts';
import { readDeclarations } from './files/declarations.ts';
import { readSources } from './files/find_files.ts';
import { makePlan } from './plan/make_plan.ts';
import type { Plan } from './plan/plan.ts';
import { ServerReader } from './plan/server_reader.ts';
import { howToContinue, runPlan } from './run_plan.ts';
import { planRecord, planText } from './show_plan.ts';

export interface ApplyOptions extends CallOptions {
  readonly dryRun?: boolean;
  readonly prune?: boolean;
  readonly yes?: boolean;
}

/** Sets the exit code. Throws CommandError and TabulariumError. */
export async function apply(path: string, options: ApplyOptions, runtime: Runtime): Promise<void> {
  const output = runtime.output(options);
  const declarations = readDeclarations(readSources(path));
  const connection = runtime.connect(options);
  const reader = new ServerReader(connection, output, runtime);
  const makeCurrentPlan = () => makePlan(declarations, reader, { prune: options.prune === true });
  const plan = await makeCurrentPlan();
  const report = (isReached: boolean, rest: Plan = plan): Promise<void> =>
    options.json
      ? output.write(
          `${exactJson({ ...planRecord(plan), reached: isReached, remaining: rest.steps.map(({ title }) => title) }, 2)}\n`,
        )
      : Promise.resolve();
  if (!options.json) await output.write(planText(plan, output.style));
  if (plan.refusals.length > 0) {
    await report(false);
    throw new CommandError('failed', 'the files declare what cannot be done; nothing was changed');
  }
  if (plan.steps.length === 0) return report(true);
  if (options.dryRun) {
    await report(false);
    process.exitCode = exitCodes.differs.code;
    return;
  }
  if (!options.yes && !(await isConfirmed(plan, options, output, runtime.signal))) {
    output.note('nothing was changed');
    process.exitCode = exitCodes.differs.code;
    return report(false);
  }
  await runPlan(plan, makeCurrentPlan, { connection, runtime, reader, output, isQuiet: options.quiet === true });
  const rest = await makeCurrentPlan().catch((error: unknown) => {
    output.note(howToContinue);
    throw error;
  });
  const isReached = rest.steps.length === 0 && rest.refusals.length === 0;
  await report(isReached, rest);
  if (isReached) {
    output.note(
      `${plan.steps.length} ${plan.steps.length === 1 ? 'step' : 'steps'} done: the server has what the files declare`,
    );
    return;
  }
  process.exitCode = exitCodes.differs.code;
  output.note(
    `the state is not reached; this is different now:\n${planText(rest, (_format, text) => text)}run the command again`,
  );
}

/** Throws CommandError where there is no terminal to ask on. */
async function isConfirmed(
  { steps }: Plan,
  { json }: ApplyOptions,
  output: Output,
  signal: AbortSignal,
): Promise<boolean> {
  if (json || !process.stdin.isTTY || !output.isInteractive)
    throw new CommandError(
      'usage',
      'there is no terminal to ask on: give --yes to carry out the plan, or --dry-run to only see it; nothing was changed',
    );
  const question = `carry out ${steps.length === 1 ? 'this step' : `these ${steps.length} steps`}? (yes/no) `;
  return /^y(es)?$/i.test((await answerTo(question, signal)).trim());
}

/** Empty if the input ends with Ctrl-D. Throws if Ctrl-C aborts the signal. */
async function answerTo(question: string, signal: AbortSignal): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  // While it reads a line, the terminal sends Ctrl-C as a key instead of a signal.
  lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  try {
    return await lines.question(question, { signal });
  } catch (error) {
    process.stderr.write('\n');
    if (signal.aborted || !(error instanceof Error) || error.name !== 'AbortError') throw error;
    return '';
  } finally {
    lines.close();
  }
}
