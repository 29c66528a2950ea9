// Loads of files into existing tables: requested here, and run by a task (jobs/load_table.ts). No row passes through the server: it
// prepares the file, and the engine reads it.
import { type Authorizer, forbidden } from '../../access/authorization/authorizer.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { FileLoad, LoadColumn } from '../../engines/port/load.ts';
import type { Principal } from '../../model/principal.ts';
import type { CatalogSpec, TableSpec } from '../../model/records.ts';
import { Failure, objectNotFound } from '../../standard/failure.ts';
import type { Segment } from '../../standard/paths.ts';
import {
  type FileInput,
  type FileRequest,
  type LoadPipeline,
  type LoadResult,
  type LoadRun,
  stepOfTask,
  validateColumns,
} from './load_pipeline.ts';

export const loadTableTask = 'load_table';

declare module '../../tasks/task.ts' {
  interface StoredRequests {
    readonly load_table: LoadRequest;
  }
}

/** What a caller requests. */
export interface LoadInput extends FileInput {
  readonly columns?: readonly LoadColumn[] | undefined;
  readonly mode?: FileLoad['mode'] | undefined;
}

/** The request of a task. `tableId` rules out a different table that has taken the same name since. */
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
  readonly #pipeline: LoadPipeline;

  constructor(parts: { readonly catalog: Catalog; readonly authorizer: Authorizer; readonly pipeline: LoadPipeline }) {
    this.#catalog = parts.catalog;
    this.#authorizer = parts.authorizer;
    this.#pipeline = parts.pipeline;
  }

  /** Returns the validated request of the task. */
  async request(path: readonly Segment[], input: LoadInput, principal: Principal): Promise<LoadRequest> {
    const [root, , table] = (await this.#catalog.require(path)) as Chain;
    await this.#authorizer.requireUse(principal, root.spec.warehouse);
    if (input.mode === 'upsert') await this.#pipeline.requireCapability(root.spec.warehouse, 'upsert');
    const isLoaded = async (label: string) => (await this.#pipeline.findLabelTask(table.id, label)) !== undefined;
    const validated = await this.#pipeline.validate(root.spec.warehouse, input, principal, isLoaded);
    validateColumns(input.columns);
    return { ...validated, path, tableId: table.id };
  }

  /** Loads all rows or none, and only once across all runs with the same task or label. */
  async run(request: LoadRequest, run: LoadRun): Promise<LoadResult> {
    const before = await this.#authorize(request, run.principal);
    const [root, database, table] = before;
    const { label, dryRun = false, mode = 'append', columns } = request;
    const { taskId } = run;
    // A consumed upload no longer exists, so an earlier result must be found before the upload is read.
    const earlier = dryRun ? undefined : await this.#pipeline.findResult(table.id, label, taskId);
    if (earlier) {
      if (!earlier.repeated) await this.#pipeline.consumeUpload(request);
      return earlier;
    }
    const file = this.#pipeline.file(request, run);
    try {
      const target = {
        warehouse: root.spec.warehouse,
        catalog: { id: root.id, name: root.name },
        database: database.name,
        table,
        definition: table.spec,
        authorize: async () => requireUnchanged(before, await this.#authorize(request, run.principal)),
      };
      const step = stepOf(request, taskId);
      const result = await this.#pipeline.load(target, request, step, async () => ({ columns, mode }), file, run);
      if (!dryRun && (label !== undefined || request.source.upload !== undefined))
        await this.#pipeline.storeResult(table.id, label, taskId, result);
      await this.#pipeline.consumeUpload(request);
      return result;
    } finally {
      await file.close();
    }
  }

  /** Whether the rows of a task that was interrupted count, so that the task is completed. */
  async hasLoaded(request: LoadRequest, taskId: string): Promise<boolean> {
    const [root, , table] = ((await this.#catalog.find(request.path)) ?? []) as Partial<Chain>;
    if (!root || table?.id !== request.tableId) return false;
    const place = { warehouse: root.spec.warehouse, catalog: { id: root.id, name: root.name } };
    return this.#pipeline.hasLoaded(place, stepOf(request, taskId), taskId);
  }

  /** Rights and names are checked when the task runs, and again when its file has arrived. */
  async #authorize(request: LoadRequest, principal: Principal): Promise<Chain> {
    await this.#authorizer.require(principal, 'write', { category: 'catalogs', path: request.path });
    const chain = (await this.#catalog.require(request.path)) as Chain;
    await this.#authorizer.requireUse(principal, chain[0].spec.warehouse);
    const [, , table] = chain;
    // The name may have been another table's a moment ago.
    if (!this.#authorizer.isAllowedOn(principal, 'write', 'catalogs', chain))
      throw forbidden('write', { category: 'catalogs', path: request.path });
    if (table.id === request.tableId) return chain;
    throw objectNotFound('tables', table.name, 'the table to load into no longer exists');
  }
}

/** What was read of the table before the file arrived is passed to the engine. Throws CHANGE_IN_PROGRESS, for which the task begins again. */
function requireUnchanged([root, , table]: Chain, [rootNow, , tableNow]: Chain): void {
  if (rootNow.id === root.id && tableNow.version === table.version) return;
  throw new Failure('CHANGE_IN_PROGRESS', 'the table was changed or moved while its file arrived');
}

/** The engine forgets the step of a task some days later, and that of a label when the table is dropped. */
const stepOf = ({ label, tableId }: LoadRequest, taskId: string): string =>
  label === undefined ? stepOfTask(taskId) : `label/${tableId}/${label}`;
