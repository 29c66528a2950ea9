// The operations of the engine process that load files. Each runs in a session without a current catalog, on a link to the file in the
// directory where the engine opens files, and reports errors about the file in terms of its rows.
import { randomUUID } from 'node:crypto';
import { link, rm } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import type { DataFile } from '../../port/load.ts';
import type { WriteVersions } from '../analysis/data_versions.ts';
import { rowsOfStep } from '../instance/applied_steps.ts';
import type { Interruptible, Sessions } from '../instance/connection_pool.ts';
import type { Operations } from '../process/protocol.ts';
import { locateErrors } from '../process/wire_errors.ts';
import { executeLoad, type LoadEnvironment } from './execute_load.ts';
import { inferTable } from './infer_schema.ts';
import { fileFailure } from './load_errors.ts';
import { planLoad } from './load_plan.ts';

type LoadOperation = 'inferTable' | 'planLoad' | 'load' | 'rowsLoadedByStep';
export type LoadOperations = { [K in LoadOperation]: (argument: Operations[K][0]) => Promise<Operations[K][1]> };

interface LoadsParts {
  readonly sessions: Sessions;
  readonly versions: WriteVersions;
  /** The work directory of this process, the only one in which the engine opens files that it did not write. */
  readonly own: string;
  readonly unreviewed: ReadonlySet<string>;
}

export class Loads {
  readonly #parts: LoadsParts;

  constructor(parts: LoadsParts) {
    this.#parts = parts;
  }

  operations(started: Interruptible, run: Pick<LoadEnvironment, 'signal' | 'stage'>): LoadOperations {
    const { sessions, versions, own, unreviewed } = this.#parts;
    return {
      inferTable: (work) =>
        this.#withFile(work, started, (connection, linked) => inferTable(connection, linked, { unreviewed, own })),
      planLoad: (work) =>
        this.#withFile(work, started, (connection, linked) => planLoad(connection, linked, unreviewed)),
      load: ({ work, plan }) => {
        const { catalog, database, table } = work.table;
        const written = [{ catalog: catalog.name, database, table }];
        // Work before reading the rows does not count as progress.
        run.stage?.(0, 0);
        return this.#withFile(work, started, (connection, linked) =>
          versions.removals.trackWrites(written, () =>
            versions.data.trackWrites(written, () => executeLoad(connection, linked, plan, { ...run, own })),
          ),
        );
      },
      rowsLoadedByStep: ({ catalog, step }) =>
        sessions.with(undefined, started, ({ connection }) => rowsOfStep(connection, catalog.name, step)),
    };
  }

  /**
   * Links a file of the spool under an unguessable name into the work directory. Other files are in a directory that is configured for
   * loading; the engine treats a name as a glob pattern only if no file has the name. Without a current catalog, names in an expression
   * cannot refer to tables or functions of a catalog.
   */
  #withFile<W extends { readonly file: DataFile }, T>(
    work: W,
    started: Interruptible,
    run: (connection: DuckDBConnection, linked: W) => Promise<T>,
  ): Promise<T> {
    const { sessions, own } = this.#parts;
    return sessions.with(undefined, started, async (session) => {
      if (session.catalog !== undefined) await session.leave();
      return locateErrors('', 0, async () => {
        const isSpooled = work.file.path.startsWith(dirname(dirname(own)) + sep);
        const path = isSpooled ? join(own, `data-${randomUUID()}`) : work.file.path;
        if (isSpooled) await link(work.file.path, path);
        const file = { ...work.file, path };
        try {
          return await run(session.connection, { ...work, file });
        } catch (error) {
          throw await fileFailure(error, file);
        } finally {
          if (isSpooled) await rm(path, { force: true });
        }
      });
    });
  }
}
