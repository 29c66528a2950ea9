// The load generator and the bare server, as the benchmarks use them: each is a separate process, on the other core.
import type { ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import type {
  CrowdJob,
  CrowdResult,
  Job,
  JobAnswer,
  JobResult,
  LoadJob,
  LoadResult,
  MixedJob,
  MixedResult,
  PagesJob,
  PagesResult,
} from './load_job.ts';
import { ask, startNode, stopProcess } from './processes.ts';

const ofChild = { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] } as const;
const script = (name: string) => join(import.meta.dirname, name);

export class Generator {
  readonly #child: ChildProcess;

  /** `pinned`: to a core that the server does not use. */
  constructor(options: { readonly pinned: boolean }) {
    this.#child = startNode(script('generator.ts'), [], {
      ...ofChild,
      stdio: [...ofChild.stdio],
      core: options.pinned ? 1 : undefined,
    });
  }

  load(job: Omit<LoadJob, 'kind'>): Promise<LoadResult> {
    return this.#run({ kind: 'load', ...job }) as Promise<LoadResult>;
  }

  pages(job: Omit<PagesJob, 'kind'>): Promise<PagesResult> {
    return this.#run({ kind: 'pages', ...job }) as Promise<PagesResult>;
  }

  crowd(job: Omit<CrowdJob, 'kind'>): Promise<CrowdResult> {
    return this.#run({ kind: 'crowd', ...job }) as Promise<CrowdResult>;
  }

  mixed(job: Omit<MixedJob, 'kind'>): Promise<MixedResult> {
    return this.#run({ kind: 'mixed', ...job }) as Promise<MixedResult>;
  }

  stop(): Promise<void> {
    return stopProcess(this.#child);
  }

  async #run(job: Job): Promise<JobResult> {
    const answer = await ask<Job, JobAnswer>(this.#child, job);
    if ('error' in answer) throw new Error(answer.error);
    return answer.result;
  }
}

/** A response as received. */
export interface CapturedAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A bare node:http server that sends one response to every request: the baseline of reads. */
export class BareServer {
  readonly #child: ChildProcess;
  readonly port: number;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
  }

  static async start(answer: CapturedAnswer): Promise<BareServer> {
    const child = startNode(script('bare_server.ts'), [], { ...ofChild, stdio: [...ofChild.stdio], core: 0 });
    const { port } = await ask<CapturedAnswer, { port: number }>(child, answer);
    return new BareServer(child, port);
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  stop(): Promise<void> {
    return stopProcess(this.#child);
  }
}
