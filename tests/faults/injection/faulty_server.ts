// A server in this process whose store and engine fail according to a FaultPlan.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { EngineWarehouse } from '../../../src/engines/port/engine.ts';
import { type RunningServer, startServer } from '../../../src/main.ts';
import type { Services } from '../../../src/resources/records/handler_context.ts';
import { readSettings } from '../../../src/settings/read_settings.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { scenarioFlags } from '../scenarios/scenario_flags.ts';
import { type ClockedWorld, scheduleClock } from '../scenarios/scenario_parts.ts';
import { Api } from './api.ts';
import { columnsInEngine } from './engine_columns.ts';
import { externalSystems } from './external_systems.ts';
import { FaultPlan } from './fault_plan.ts';
import { faultyEngine } from './faulty_engine.ts';

export class InjectedFault extends Error {
  override name = 'InjectedFault';
}

export class FaultyServer implements ClockedWorld {
  /** The store fails with a generic error; an engine does too, or fails as if its process had died. */
  readonly plan = new FaultPlan((fault, call) => {
    if (this.onStrike) return this.onStrike(call);
    if (fault.point !== 'store' && fault.n % 2 === 0) throw new Failure('WAREHOUSE_FAILED', `injected: ${call}`);
    throw new InjectedFault(`injected at ${fault.point} ${fault.n}: ${call}`);
  });
  /** Called in the place of a failure, if it is set. */
  onStrike: ((call: string) => void) | undefined;
  readonly dataDirectory: string;
  #server!: RunningServer;
  #api!: Api;
  #services!: Services;
  #maintain!: () => Promise<void>;
  #engine: EngineWarehouse | undefined;
  #clockMs = scheduleClock.ms;

  private constructor(dataDirectory: string) {
    this.dataDirectory = dataDirectory;
  }

  static async start(): Promise<FaultyServer> {
    const faulty = new FaultyServer(await mkdtemp(join(tmpdir(), 'tabularium-faults-')));
    await faulty.#start();
    return faulty;
  }

  get api(): Api {
    return this.#api;
  }

  get services(): Services {
    return this.#services;
  }

  columnsInEngine(path: readonly string[]): Promise<string[] | undefined> {
    const spoolDirectory = join(this.dataDirectory, 'spool');
    return columnsInEngine(this.#services, () => this.#engine as EngineWarehouse, spoolDirectory, path);
  }

  setClock(ms: number): Promise<void> {
    this.#clockMs = ms;
    this.#services.schedules.changed();
    return Promise.resolve();
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.#start();
  }

  /** Runs the periodic maintenance now. */
  maintain(): Promise<void> {
    return this.#maintain();
  }

  async stop(): Promise<void> {
    this.#api.close();
    await this.#server.close();
  }

  async remove(): Promise<void> {
    await rm(this.dataDirectory, { recursive: true, force: true });
  }

  async #start(): Promise<void> {
    const external = await externalSystems();
    external.hit = (point, call) => this.plan.reach(point, call);
    const flags = ['--port', '0', '--data-dir', this.dataDirectory, '--log-level', 'silent', ...scenarioFlags];
    const log = process.env.FAULTS_LOG;
    if (log) flags[5] = log;
    this.#server = await startServer(readSettings([...flags, '--warehouse-threads', '2'], {}), {
      injectStore: ({ sql }) => this.plan.reach('store', sql),
      wrapEngine: (engine) =>
        faultyEngine(engine, {
          plan: this.plan,
          opened: (warehouse) => {
            this.#engine = warehouse;
          },
        }),
      assembled: (services) => {
        this.#services = services;
      },
      maintained: (all) => {
        this.#maintain = all;
      },
      scheduleClock: () => this.#clockMs,
      taskRetryPauseMs: 10,
    });
    // Changes that a fault leaves open are inspected first, and recovered when the test requests it (`maintain`).
    await this.#services.catalog.stop();
    this.#api = new Api(this.#server.url, this.#server.token);
  }
}
