// The operations of the engine process that load files. Each runs in a session without a current catalog.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { WriteVersions } from '../analysis/data_versions.ts';
import { rowsOfStep } from '../instance/applied_steps.ts';
import type { Sessions } from '../instance/connection_pool.ts';
import type { Operations } from '../process/protocol.ts';
import { locateErrors } from '../process/wire_errors.ts';
import { type InferSurroundings, inferTable } from './infer_schema.ts';
import { type LoadEnvironment, loadFile, shapeOfLoad } from './load_file.ts';

type LoadOperation = 'inferTable' | 'shapeOfLoad' | 'load' | 'rowsLoadedByStep';
export type LoadOperations = { [K in LoadOperation]: (argument: Operations[K][0]) => Promise<Operations[K][1]> };

type Interruptible = (connection: DuckDBConnection | undefined) => void;

export class Loads {
  readonly #sessions: Sessions;
  readonly #epochs: WriteVersions;
  readonly #surroundings: InferSurroundings;

  constructor(sessions: Sessions, epochs: WriteVersions, surroundings: InferSurroundings) {
    this.#sessions = sessions;
    this.#epochs = epochs;
    this.#surroundings = surroundings;
  }

  operations(started: Interruptible, run: Pick<LoadEnvironment, 'signal' | 'stage'>): LoadOperations {
    return {
      inferTable: (work) => this.#apart(started, (connection) => inferTable(connection, work, this.#surroundings)),
      shapeOfLoad: (work) => this.#apart(started, (connection) => shapeOfLoad(connection, work, this.#surroundings)),
      load: (work) => {
        const { catalog, database, table } = work.table;
        const written = { catalog: catalog.name, database, table };
        const surroundings = { ...this.#surroundings, ...run };
        const { data, removals } = this.#epochs;
        return this.#apart(started, (connection) =>
          removals.trackWrites([written], () =>
            data.trackWrites([written], () => loadFile(connection, work, surroundings)),
          ),
        );
      },
      rowsLoadedByStep: ({ catalog, step }) =>
        this.#sessions.with(undefined, started, ({ connection }) => rowsOfStep(connection, catalog.name, step)),
    };
  }

  /** Without a current catalog, names in an expression cannot refer to tables or functions of a catalog. */
  #apart<T>(started: Interruptible, work: (connection: DuckDBConnection) => Promise<T>): Promise<T> {
    return this.#sessions.with(undefined, started, async (session) => {
      if (session.catalog !== undefined) await session.leave();
      return locateErrors('', 0, () => work(session.connection));
    });
  }
}
