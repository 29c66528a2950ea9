// Exercises a running service and reports rule by rule. Whatever happens, the objects that the run may have created are deleted at its end.
import type { Report } from '../report/report.ts';
import { probeService, readCollections } from './api_probes.ts';
import { CallError, Calls, type Service } from './calls.ts';
import { checkExchange } from './exchange_checks.ts';
import type { CreatedObjects } from './object_probe.ts';
import { Findings } from './rules.ts';
import type { Subjects } from './subjects.ts';
import { Walk } from './walk.ts';

export interface LiveRun {
  readonly service: Service;
  readonly subjects: Subjects;
  /** With which the names of all objects begin. Undefined: nothing is created. */
  readonly namespace: string | undefined;
  readonly taskTimeoutMs: number;
  readonly signal: AbortSignal;
  /** What the run does now, for a person. */
  progress(text: string): void;
}

export interface LiveResult {
  readonly report: Report;
  /** Paths of objects that could not be deleted. */
  readonly left: readonly string[];
}

/** For all deletions after the run, also after an interruption. */
const cleanupMs = 60_000;
/** For a creation that may be under way, or a deletion that is. */
const settleMs = 5000;

/** Throws CallError if the service cannot be reached; the `left` of the error are then the objects that could not be deleted. */
export async function runLive(run: LiveRun): Promise<LiveResult> {
  const { service, signal } = run;
  const calls = new Calls(service, signal);
  const findings = new Findings();
  const created: CreatedObjects = { paths: new Set(), pending: new Map() };
  let failure: unknown;
  try {
    await probe(run, calls, findings, created);
  } catch (error) {
    failure = error;
  }
  const left = await cleanUp(calls, created, run);
  if (failure !== undefined) throw left.length === 0 ? failure : new LeftObjectsError(left, failure);
  for (const exchange of calls.exchanges) checkExchange(exchange, findings);
  const report: Report = {
    subject: service.baseUrl,
    details: { requestCount: calls.exchanges.length, left },
    rules: findings.report(),
  };
  return { report, left };
}

/** A run ended early, and left objects behind. */
export class LeftObjectsError extends Error {
  override readonly name = 'LeftObjectsError';
  readonly left: readonly string[];

  constructor(left: readonly string[], cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.left = left;
  }
}

async function probe(
  { service, subjects, namespace, taskTimeoutMs, progress }: LiveRun,
  calls: Calls,
  findings: Findings,
  created: CreatedObjects,
): Promise<void> {
  progress('reading collections');
  const readable = await readCollections(subjects, calls, findings);
  if (readable !== undefined) {
    progress(`probing ${readable}`);
    await probeService(readable, subjects, service.authorization !== undefined, calls, findings);
  }
  if (namespace === undefined) return;
  // Two runs with one namespace, and a run after one that was killed, do not meet.
  const run = Math.random().toString(36).slice(2, 8).padEnd(6, '0');
  let count = 0;
  const newName = (suffix = '') => `${namespace}_${run}_${++count}${suffix}`;
  const walk = new Walk({ calls, findings, created, taskTimeoutMs, newName, progress });
  walk.noteUnsatisfied(subjects.unsatisfied);
  for (const creatable of subjects.subjects) await walk.probe(creatable, creatable.collection);
}

/** @returns the paths of objects that may still exist. */
async function cleanUp(calls: Calls, { paths, pending }: CreatedObjects, { progress }: LiveRun): Promise<string[]> {
  if (paths.size === 0) return [];
  progress('deleting what was created');
  const left: string[] = [];
  const cleaning = calls.withSignal(AbortSignal.timeout(cleanupMs));
  for (const path of [...paths].reverse()) if (!(await isDeleted(cleaning, path, pending.get(path)))) left.push(path);
  return left;
}

async function isDeleted(calls: Calls, path: string, pending: 'sent' | 'accepted' | undefined): Promise<boolean> {
  const isShown = async (): Promise<boolean> => (await calls.send({ method: 'GET', path })).status < 300;
  try {
    const isThere = pending === undefined ? await isShown() : await calls.until(isShown, settleMs);
    // What never came to be needs no deletion; what was accepted and is not shown may be somewhere.
    if (!isThere) return pending !== 'accepted';
    const { status } = await calls.send({ method: 'DELETE', path });
    const isGone = async (): Promise<boolean> => !(await isShown());
    return status === 202 ? await calls.until(isGone, settleMs) : status < 300 && (await isGone());
  } catch (error) {
    if (error instanceof CallError || (error instanceof Error && error.name === 'TimeoutError')) return false;
    throw error;
  }
}
