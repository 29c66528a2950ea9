// How the processes of one warehouse are launched: confined, with the directories that they may use and the limits of the warehouse.
import type { WarehouseSpec } from '../../../model/records.ts';
import { Failure } from '../../../standard/failure.ts';
import type { ConfinementMeasure } from '../../port/backends.ts';
import type { EngineWarehouseOptions } from '../../port/engine.ts';
import { type Confinement, inactiveOf, type Launch } from '../sandbox/sandbox.ts';
import { catalogsDirectory } from '../storage/catalog_files.ts';
import type { Operations } from './protocol.ts';

/** Memory limit of a process that does not run statements: it binds, parses, or checks one file. */
export const helperMemoryBytesMax = 1024 ** 3;

export class ProcessLauncher {
  readonly #options: EngineWarehouseOptions;
  readonly #confinement: Confinement;
  /** The limits of processes that are launched from now on. */
  spec: WarehouseSpec;
  /** As of the last process that can open files of catalogs; empty before the first. */
  measures: readonly ConfinementMeasure[] = [];

  constructor(options: EngineWarehouseOptions, confinement: Confinement) {
    this.#options = options;
    this.#confinement = confinement;
    this.spec = options.spec;
  }

  /** For a process that can open the files of catalogs. Throws WAREHOUSE_FAILED. */
  async launchWithFiles(): Promise<Launch> {
    const { name, dataDirectory, spoolDirectory, readableDirectories = [], observe } = this.#options;
    try {
      const writable = [catalogsDirectory(dataDirectory), spoolDirectory];
      const launch = await this.#confinement.launch({ data: dataDirectory, writable, readable: readableDirectories });
      this.measures = launch.confinement;
      const reason = inactiveOf(launch.confinement);
      if (reason !== '')
        this.#confinement.reportOnce(() => observe({ kind: 'engineUnconfined', warehouse: name, reason }));
      return launch;
    } catch (error) {
      throw this.startFailure((error as Error).message, error);
    }
  }

  /** For a process that cannot see the files of catalogs. */
  launchWithoutFiles(): Promise<Launch> {
    const { dataDirectory, spoolDirectory, readableDirectories = [] } = this.#options;
    return this.#confinement.launch({ data: dataDirectory, writable: [spoolDirectory], readable: readableDirectories });
  }

  /** The settings of a process that runs statements. */
  settings(): Operations['prepare'][0] {
    return this.#settings(this.spec);
  }

  /** The settings of a process that does not run statements. */
  helperSettings(): Operations['prepare'][0] {
    const memoryLimitBytes = Math.min(this.spec.memoryLimitBytes, helperMemoryBytesMax);
    return this.#settings({ ...this.spec, memoryLimitBytes });
  }

  /** Reports that the engine does not start. */
  startFailure(reason: string, cause: unknown): Failure {
    this.#options.observe({ kind: 'engineDied', warehouse: this.#options.name, reason });
    const message = 'the engine of the warehouse does not start';
    return new Failure('WAREHOUSE_FAILED', message, {}, { cause, outcome: 'notApplied' });
  }

  #settings(spec: WarehouseSpec): Operations['prepare'][0] {
    const { dataDirectory, spoolDirectory, readableDirectories = [] } = this.#options;
    return { spec, dataDirectory, spoolDirectory, readableDirectories };
  }
}
