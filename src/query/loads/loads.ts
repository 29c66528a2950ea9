// Loads of files into tables that are there: asked for, and done by a task (jobs/load_table.ts). No row passes through the server: it
// makes the file ready, and the engine reads it.
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { LoadColumn, LoadWork } from '../../engines/load.ts';
import type { Principal } from '../../model/principal.ts';
import type { CatalogSpec, TableSpec } from '../../model/records.ts';
import { Failure } from '../../standard/failure.ts';
import type { Segment } from '../../standard/paths.ts';
import {
  type FileInput,
  type FileRequest,
  type LoadPipeline,
  type LoadResult,
  type LoadRun,
  requireOneOrigin,
} from './load_pipeline.ts';

export const loadTableTask = 'load_table';

/** What a caller asks for. */
export interface LoadInput extends FileInput {
  readonly columns?: readonly LoadColumn[] | undefined;
  readonly mode?: LoadWork['mode'] | undefined;
}

/** The request of a task. `tableId`: another table that got its name since is not meant. */
export interface LoadRequest extends LoadInput, FileRequest {
  readonly format: FileRequest['format'];
  readonly compression: FileRequest['compression'];
  readonly path: readonly Segment[];
  readonly tableId: string;
}

type Chain = [CatalogObject<CatalogSpec>, CatalogObject, CatalogObject<TableSpec>];

export class Loads {
  readonly #catalog: Catalog;
  readonly #authorizer: Authorizer;
  readonly #steps: LoadPipeline;

  constructor(parts: { readonly catalog: Catalog; readonly authorizer: Authorizer; readonly steps: LoadPipeline }) {
    this.#catalog = parts.catalog;
    this.#authorizer = parts.authorizer;
    this.#steps = parts.steps;
  }

  /** What the task is to do. Throws what can be said at once. */
  async request(path: readonly Segment[], asked: LoadInput, principal: Principal): Promise<LoadRequest> {
    const [root, , table] = (await this.#catalog.require(path)) as Chain;
    await this.#steps.requireUse(root.spec.warehouse, principal);
    const checked = await this.#steps.checked(asked, principal);
    requireOneOrigin(asked.columns);
    return { ...checked, path, tableId: table.id };
  }

  /** All or nothing; once, however often it is run with the same task or label. */
  async run(request: LoadRequest, run: LoadRun): Promise<LoadResult> {
    const [root, database, table] = await this.#authorised(request, run.principal);
    const { label, dryRun = false, mode = 'append', columns } = request;
    const { taskId } = run;
    // An upload that was used up is gone, so that what was done has to be found before it.
    const known = dryRun ? undefined : await this.#steps.kept(table.id, label, taskId);
    if (known) {
      if (!known.repeated) await this.#steps.useUp(request);
      return known;
    }
    const file = this.#steps.file(request, run);
    try {
      const target = {
        warehouse: root.spec.warehouse,
        catalog: { id: root.id, name: root.name },
        database: database.name,
        table,
        definition: table.spec,
      };
      // The engine forgets a task's step some days later; a label's with its table.
      const step = label === undefined ? `load/${taskId}` : `label/${table.id}/${label}`;
      const result = await this.#steps.load(target, request, step, async () => ({ columns, mode }), file, run);
      if (!dryRun && (label !== undefined || request.source.upload !== undefined))
        await this.#steps.keep(table.id, label, taskId, result);
      await this.#steps.useUp(request);
      return result;
    } finally {
      await file.close();
    }
  }

  /** Rights and names are those of now: a task may have waited. */
  async #authorised(request: LoadRequest, principal: Principal): Promise<Chain> {
    await this.#authorizer.require(principal, 'write', { category: 'catalogs', path: request.path });
    const chain = (await this.#catalog.require(request.path)) as Chain;
    await this.#steps.requireUse(chain[0].spec.warehouse, principal);
    const [, , table] = chain;
    if (table.id === request.tableId) return chain;
    throw new Failure('OBJECT_NOT_FOUND', 'the table that was to be loaded is no more', {
      category: 'tables',
      name: table.name,
    });
  }
}
