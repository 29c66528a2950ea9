// What can happen at a step of a change or a decommission: the server that works on it holds there until something is killed, frozen or restarted.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { eventually } from '../../deadline.ts';
import type { Fault as StepFault } from '../injection/fault_plan.ts';
import type { ArmedFault } from './armed_server.ts';
import type { ClusterServer, ClusterWorld } from './cluster_world.ts';
import { type Fault, frozen, killed, ofKeeper, ofStore, type Process } from './faults.ts';

/** The module of servers that can be armed. */
export const armedServer = new URL('armed_server.ts', import.meta.url);

/** A fault at a step, as `Place` says who takes part. */
export interface Blow<Place> {
  readonly name: string;
  /** It strikes the server that holds, which continues when the fault ends. */
  readonly isOfServer: boolean;
  of(place: Place): Fault;
}

interface Held {
  /** It holds at the step. */
  readonly server: ClusterServer;
}

/** Kills and freezes of the server that holds and of these others, and what can happen to the store and, where there is one, to ZooKeeper. */
export function blowsOn<Place extends Held>(
  others: Readonly<Record<string, (place: Place) => readonly Process[]>>,
  { hasKeeper }: { readonly hasKeeper: boolean },
): readonly Blow<Place>[] {
  const theServer = 'the server';
  const targets = { [theServer]: ({ server }: Place) => [server], ...others };
  const ofProcesses = Object.entries(targets).flatMap(([target, chosen]) =>
    [killed, frozen].map((strike): Blow<Place> => {
      const of = (place: Place) => strike(target, () => chosen(place));
      return { name: strike(target, () => []).name, isOfServer: target === theServer, of };
    }),
  );
  const ofOthers = [...ofStore, ...(hasKeeper ? ofKeeper : [])];
  return [...ofProcesses, ...ofOthers.map((fault) => ({ name: fault.name, isOfServer: false, of: () => fault }))];
}

/** At this step the server holds. */
export const holdAt = (server: ClusterServer, fault: StepFault): Promise<void> =>
  arm(server, { fault, signal: 'SIGSTOP' });

/** Ends what `holdAt` began, unless the server holds. @returns as `disarm`; it holds if that is a step. */
export async function heldAt(server: ClusterServer, fault: StepFault): Promise<string | number> {
  const call = (server.isStopped ? struckAt(server) : undefined) ?? (await disarm(server, fault));
  // Between the note of the step and the signal nothing must let it continue.
  if (typeof call === 'string') await eventually('the server holds', () => server.isStopped);
  return call;
}

/** The server holds until something else is struck; if it is struck itself, until the fault ends. @returns what ends the fault. */
export async function begin<Place extends Held>(
  { isOfServer, of }: Blow<Place>,
  place: Place,
  world: ClusterWorld,
): Promise<() => Promise<void>> {
  const end = await of(place).begin(world);
  if (!isOfServer) place.server.resume();
  return end;
}

/** How many steps the changes have: those beyond the last are not tried. */
export class ReachedSteps {
  readonly #counts = new Map<string, number>();
  readonly #without = new Set<string>();

  /** `kind`: of the steps that are counted together. `n`: of its step. */
  isBeyond(kind: string, n: number): boolean {
    return n > (this.#counts.get(kind) ?? Number.POSITIVE_INFINITY) + spareSteps;
  }

  /** How many there were when nothing happened. None counts the second time only: the other server may have taken the task. */
  note(kind: string, count: number): void {
    if (count > 0 || this.#without.has(kind)) this.#counts.set(kind, Math.max(count, this.#counts.get(kind) ?? 0));
    this.#without.add(kind);
  }
}

/** Work beside a change can add or take a step. */
const spareSteps = 2;

export interface StepsReport {
  readonly tried: number;
  /** Of these, the ones that were reached. */
  readonly struck: number;
  /** Empty if nothing was wrong. */
  readonly problems: readonly string[];
}

export async function arm(server: ClusterServer, fault: ArmedFault): Promise<void> {
  rmSync(join(server.directory, 'struck'), { force: true });
  await setFault(server, fault);
}

/** @returns the step at which it has struck meanwhile; if it does not strike any more, how many steps of that kind there were. */
async function disarm(server: ClusterServer, { point }: StepFault): Promise<string | number> {
  await setFault(server, { fault: { point, n: Number.MAX_SAFE_INTEGER, isLasting: false } });
  const counts = () =>
    JSON.parse(readFileSync(join(server.directory, 'armed'), 'utf8')) as Partial<Record<string, number>>;
  return struckAt(server) ?? counts()[point] ?? 0;
}

async function setFault(server: ClusterServer, fault: ArmedFault): Promise<void> {
  const armedFile = join(server.directory, 'armed');
  rmSync(armedFile, { force: true });
  writeFileSync(join(server.directory, 'fault.json'), JSON.stringify(fault));
  server.signal('SIGUSR2');
  await eventually('the server is armed', () => existsSync(armedFile) || struckAt(server));
}

/** The step at which an armed server struck; undefined if it has not reached it. */
export function struckAt({ directory }: ClusterServer): string | undefined {
  const file = join(directory, 'struck');
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
}
