// Walks down the categories of a service: probes the objects of one, then creates one that stays, and continues in the categories below it
// (rest-standard A1). All names are in the namespace, so that what is below an object that the kit created is the kit's own.
import { statusProblem } from './api_probes.ts';
import { type ObjectProbe, objectPath, outcomeOf } from './object_probe.ts';
import { createParent, probeObjects } from './object_probes.ts';
import type { Creatable, Unsatisfied } from './subjects.ts';

export interface WalkOptions extends Pick<ObjectProbe, 'calls' | 'findings' | 'created' | 'taskTimeoutMs' | 'newName'> {
  progress(text: string): void;
}

/** Categories that are probed in a run; further ones are noted. */
const probedMax = 40;

export class Walk {
  readonly #options: WalkOptions;
  #probedCount = 0;

  constructor(options: WalkOptions) {
    this.#options = options;
  }

  noteUnsatisfied(unsatisfied: readonly Unsatisfied[]): void {
    for (const { path, reason } of unsatisfied)
      this.#options.findings.note('post', `nothing is created in ${path}: ${reason}`);
  }

  /** `collection`: the path of the category, with the names of the objects above it. */
  async probe(creatable: Creatable, collection: string): Promise<void> {
    if (this.#probedCount >= probedMax)
      return this.noteUnsatisfied([{ path: collection, reason: `${probedMax} categories were exercised before` }]);
    this.#probedCount++;
    this.#options.progress(`creating, changing and deleting objects in ${collection}`);
    const probe = await this.#probed(creatable, collection);
    if (!probe) return this.noteUnsatisfied([...belowOf(creatable), ...creatable.unsatisfied]);
    this.noteUnsatisfied(creatable.unsatisfied);
    if (creatable.below.length === 0) return;
    const parent = probe.newName();
    if (!(await createParent(probe, parent))) return this.noteUnsatisfied(belowOf(creatable));
    for (const { category, creatable: below } of creatable.below) {
      const path = `${objectPath(probe, parent)}/${category}`;
      await this.#list(path);
      await this.probe(below, path);
    }
  }

  /** With the first of the bodies that creates. @returns undefined: none does. */
  async #probed(creatable: Creatable, collection: string): Promise<ObjectProbe | undefined> {
    const { findings } = this.#options;
    for (const [index, body] of creatable.bodies.entries()) {
      const subject = { ...creatable, collection, body };
      const probe: ObjectProbe = { ...this.#options, subject, tasks: { isDeletionProbed: false } };
      const refused = await probeObjects(probe);
      if (!refused) return probe;
      const isLast = index === creatable.bodies.length - 1;
      if (!isLast && refused.status === 400) continue;
      findings.note(
        'post',
        `POST ${refused.path} does not create: ${outcomeOf(refused)}; describe the creation with --collection and --create`,
      );
      return undefined;
    }
    return undefined;
  }

  async #list(path: string): Promise<void> {
    const { calls, findings } = this.#options;
    const exchange = await calls.send({ method: 'GET', path });
    if (exchange.status === 401 || exchange.status === 403)
      return findings.note('get', `GET ${path} is refused with ${exchange.status}: the credentials do not allow it`);
    // Creation may be all that a category is for.
    if (exchange.status === 405) return;
    findings.check('get', exchange, statusProblem(exchange, [200], 'a list'));
  }
}

const belowOf = ({ below }: Creatable): Unsatisfied[] =>
  below.map(({ creatable }) => ({ path: creatable.collection, reason: 'no object above it could be created' }));
