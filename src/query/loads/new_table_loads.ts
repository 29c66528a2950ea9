// Loads of files into tables created for them: the file and the request together give the definition of the table. The table is created
// and filled by a task (jobs/load_database.ts) and is not visible before it is complete.
import assert from 'node:assert/strict';
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { NewTableDefinition } from '../../api/tables/table_fields.ts';
import type { InferredTable as InferredTableSchema } from '../../api/transfer/inferred_table.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { CatalogObject, CreationWork } from '../../catalog/object.ts';
import type { Engine } from '../../engines/port/engine.ts';
import type { InferColumn, InferredTable } from '../../engines/port/load.ts';
import type { Warehouses } from '../../engines/warehouses/warehouses.ts';
import type { Principal } from '../../model/principal.ts';
import type { CatalogSpec, ColumnDefinition, DatabaseSpec, TableDefinition, TableSpec } from '../../model/records.ts';
import { parseType } from '../../model/types.ts';
import { Failure, objectNotFound } from '../../standard/failure.ts';
import { parseJson } from '../../standard/json/parse_json.ts';
import type { Segment } from '../../standard/paths.ts';
import type { Sendable, Static } from '../../standard/type.ts';
import type {
  FileInput,
  FileRequest,
  LoadExecution,
  LoadPipeline,
  LoadResult,
  LoadRun,
  LoadTarget,
  RunFile,
} from './load_pipeline.ts';
import { validateColumns } from './load_pipeline.ts';

/** Number of rows in the preview of an inferred table. */
const previewRows = 10;
/** Values in files may nest deeper than those in requests. */
const valueDepthMax = 10_000;

/** A column as requested; omitted fields are inferred from the file. */
export interface ColumnRequest {
  readonly name: string;
  readonly source?: string;
  readonly expression?: string;
  readonly type?: string;
  readonly nullable?: boolean;
  readonly defaultValue?: string | number | boolean | null;
  readonly comment?: string | null;
}

/** What a caller requests; `definition` is that of the table without its columns. */
export interface NewTableInput extends FileInput {
  readonly table: string;
  readonly columns?: readonly ColumnRequest[] | undefined;
  /** Types by column name in the file. */
  readonly types?: Readonly<Record<string, string>> | undefined;
  readonly inferFrom?: 'sample' | 'all' | undefined;
  readonly definition: NewTableDefinition;
  /** Owner of the table if not the caller; present only to be shown. */
  readonly owner?: string | undefined;
  /** Only infer the definition; no table is created. */
  readonly inferOnly?: boolean | undefined;
}

export interface NewTableRequest extends NewTableInput, FileRequest {
  readonly format: FileRequest['format'];
  readonly compression: FileRequest['compression'];
  /** Path of the database. */
  readonly path: readonly Segment[];
  readonly databaseId: string;
  /** Id of the table that a load with this label created: its result is returned. */
  readonly repeatOf?: string | undefined;
}

declare module '../../tasks/task.ts' {
  interface StoredRequests {
    readonly load_database: NewTableRequest;
  }
}

/** The result of `infer`. */
export type InferredDefinition = Sendable<Static<typeof InferredTableSchema>>;

/** Conversions of table definitions, supplied by the category of tables. */
export interface DefinitionConversions {
  /** Throws INVALID_PARAMETER. */
  readonly specOf: (input: NewTableInput, inferred: readonly ColumnDefinition[], engine: Engine) => TableSpec;
  /** The definition in the form of a request body. */
  readonly bodyOf: (spec: TableSpec) => Pick<InferredDefinition, 'columns'>;
  readonly definitionOf: (spec: TableSpec) => TableDefinition;
}

export interface NewTableResult extends LoadResult {
  readonly table: string;
}

type Parents = [CatalogObject<CatalogSpec>, CatalogObject<DatabaseSpec>];

export interface Parts {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
  readonly authorizer: Authorizer;
  readonly pipeline: LoadPipeline;
  readonly definitions: DefinitionConversions;
}

export class NewTableLoads {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Returns the validated request of the task. */
  async request(path: readonly Segment[], input: NewTableInput, principal: Principal): Promise<NewTableRequest> {
    const { catalog, authorizer, pipeline } = this.#parts;
    const [root, database] = (await catalog.require(path)) as Parents;
    await authorizer.requireUse(principal, root.spec.warehouse);
    const isLoaded = async () =>
      !input.inferOnly && (await this.findLabelled({ ...input, path, databaseId: database.id })) !== undefined;
    const validated = await pipeline.validate(root.spec.warehouse, input, principal, isLoaded);
    validateColumns(input.columns);
    return { ...validated, path, databaseId: database.id };
  }

  /** Returns the inferred definition of the table and its first rows. */
  async infer(request: NewTableRequest, run: LoadRun): Promise<InferredDefinition> {
    const authorize = () => this.#authorizeInference(request, run.principal);
    return this.#withAttempt(request, run, await authorize(), authorize, async (attempt) => {
      const { spec, inferred } = await attempt.inferred();
      const { columns, ...body } = this.#parts.definitions.bodyOf(spec);
      const { delimiter, header, dateFormat, timestampFormat } = inferred.schema.csv;
      return {
        ...(request.table === '' ? {} : { table: request.table }),
        columns: columns.map((column) => ({ ...column, ...columnSource(column.name, inferred) })),
        ...body,
        rows: inferred.rows.map(parseRow),
        ...(inferred.sample ? { sample: inferred.sample } : {}),
        format: request.format,
        compression: request.compression,
        ...(request.format === 'csv'
          ? { csv: { ...request.csv, delimiter, header, dateFormat, timestampFormat } }
          : {}),
        bytes: (await attempt.file.ready()).bytes,
      };
    });
  }

  /** Loads into a temporary table, reports the counts and undoes everything. */
  async dryRun(request: NewTableRequest, run: LoadRun): Promise<NewTableResult> {
    const authorize = () => this.#authorize(request, run.principal);
    return this.#withAttempt(request, run, await authorize(), authorize, async (attempt) => {
      const { spec } = await attempt.inferred();
      return attempt.fill({ id: undefined, spec }, `load/${run.taskId}`, true);
    });
  }

  /**
   * Creates and fills the table through `runCreation` (`Catalog.runCreation`) and returns the result, also if an earlier attempt created
   * the table.
   */
  async create(
    request: NewTableRequest,
    run: LoadRun,
    runCreation: (work: CreationWork) => Promise<CatalogObject>,
  ): Promise<NewTableResult> {
    const { pipeline, definitions } = this.#parts;
    const { label } = request;
    const { taskId } = run;
    const authorize = () => this.#authorize(request, run.principal);
    return this.#withAttempt(request, run, await this.#parents(request), authorize, async (attempt) => {
      let object: { id: string; spec: TableSpec } | undefined;
      const created = await runCreation({
        define: async ({ id, spec }) => {
          await authorize();
          object = { id, spec: spec as TableSpec };
          if (object.spec.columns.length > 0) return undefined;
          const inferred = await attempt.inferred();
          object = { id, spec: inferred.spec };
          const { catalog, database } = attempt.target;
          const definition = definitions.definitionOf(inferred.spec);
          const table = { catalog, database, table: request.table };
          return { spec: inferred.spec, change: { kind: 'createTable', table, definition } };
        },
        fill: async () => {
          if (!object) throw new Error('a table is filled before it is defined');
          const step = label === undefined ? `load/${taskId}` : `label/${object.id}/${label}`;
          // Stored before the table becomes visible: the file may be gone when the result is requested again.
          await pipeline.storeResult(object.id, label, taskId, await attempt.fill(object, step));
          return undefined;
        },
      });
      const stored = await pipeline.findResult(created.id, label, taskId);
      if (!stored) throw objectNotFound('tables', created.name, 'the table no longer exists');
      await pipeline.consumeUpload(request);
      return { ...stored, table: created.name };
    });
  }

  /** Returns the result of the load with this label to a principal that may load the table. */
  async repeatResult(
    { repeatOf, label, table, path }: NewTableRequest,
    { taskId, principal }: LoadRun,
  ): Promise<NewTableResult> {
    const object = { category: 'catalogs', path: [...path, { category: 'tables', name: table }] };
    await this.#parts.authorizer.require(principal, 'write', object);
    const stored = repeatOf === undefined ? undefined : await this.#parts.pipeline.findResult(repeatOf, label, taskId);
    if (!stored) throw objectNotFound('tables', table, 'the table no longer exists');
    return { ...stored, table };
  }

  /** Finds the load with this label that created, or is creating, the table of this name: its task, and the table if it exists. */
  async findLabelled({
    path,
    databaseId,
    table: name,
    label,
  }: Pick<NewTableRequest, 'path' | 'databaseId' | 'table' | 'label'>): Promise<
    { readonly taskId: string; readonly tableId: string | undefined } | undefined
  > {
    if (label === undefined) return undefined;
    const { catalog, pipeline } = this.#parts;
    const table = (await catalog.find([...path, { category: 'tables', name }]))?.at(-1);
    if (!table) {
      const taskId = await catalog.findCreationTask(databaseId, 'tables', name);
      return taskId === undefined ? undefined : { taskId, tableId: undefined };
    }
    const taskId = await pipeline.findLabelTask(table.id, label);
    // A load into an existing table is a different load.
    const stored = taskId === undefined ? undefined : await pipeline.findResult(table.id, label, taskId);
    return stored && 'table' in stored && taskId !== undefined ? { taskId, tableId: table.id } : undefined;
  }

  async #parents({ path }: NewTableRequest): Promise<Parents> {
    return (await this.#parts.catalog.require(path)) as Parents;
  }

  /** Whoever may load a file into an existing table may see how it would be read. */
  async #authorizeInference(request: NewTableRequest, principal: Principal): Promise<Parents> {
    const { path, table } = request;
    const target = { category: 'catalogs', path: [...path, { category: 'tables', name: table }] };
    const isAllowed = table !== '' && (await this.#parts.authorizer.isAllowed(principal, 'write', target));
    return isAllowed ? this.#requireSame(request, principal) : this.#authorize(request, principal);
  }

  /** Rights and names are checked again, because the task may have waited. */
  async #authorize(request: NewTableRequest, principal: Principal): Promise<Parents> {
    await this.#parts.authorizer.require(principal, 'create', { category: 'catalogs', path: request.path });
    return this.#requireSame(request, principal);
  }

  async #requireSame(request: NewTableRequest, principal: Principal): Promise<Parents> {
    const parents = await this.#parents(request);
    await this.#parts.authorizer.requireUse(principal, parents[0].spec.warehouse);
    if (parents[1].id === request.databaseId) return parents;
    throw objectNotFound('databases', parents[1].name, 'the database of the new table no longer exists');
  }

  async #withAttempt<T>(
    request: NewTableRequest,
    run: LoadRun,
    parents: Parents,
    authorize: () => Promise<Parents>,
    work: (attempt: NewTableAttempt) => Promise<T>,
  ): Promise<T> {
    const file = this.#parts.pipeline.file(request, run);
    try {
      return await work(new NewTableAttempt(this.#parts, { request, run, parents, authorize, file }));
    } finally {
      await file.close();
    }
  }
}

interface InferredSpec {
  readonly spec: TableSpec;
  readonly inferred: InferredTable;
}

/** One attempt: its file and the definition inferred from it. */
class NewTableAttempt {
  readonly target: Pick<LoadTarget, 'warehouse' | 'catalog' | 'database' | 'authorize'>;
  readonly file: RunFile;
  readonly #parts: Parts;
  readonly #request: NewTableRequest;
  readonly #run: LoadRun;
  #inferred: Promise<InferredSpec> | undefined;

  constructor(
    parts: Parts,
    options: {
      readonly request: NewTableRequest;
      readonly run: LoadRun;
      readonly parents: Parents;
      readonly authorize: () => Promise<Parents>;
      readonly file: RunFile;
    },
  ) {
    const { authorize } = options;
    const [root, database] = options.parents;
    this.#parts = parts;
    this.#request = options.request;
    this.#run = options.run;
    this.file = options.file;
    this.target = {
      warehouse: root.spec.warehouse,
      catalog: { id: root.id, name: root.name },
      database: database.name,
      authorize: async () => requireUnmoved(root, (await authorize())[0]),
    };
  }

  inferred(): Promise<InferredSpec> {
    this.#inferred ??= this.#infer();
    return this.#inferred;
  }

  async #infer(): Promise<InferredSpec> {
    const { warehouses, definitions } = this.#parts;
    const { format, csv = {}, columns, types, inferFrom, inferOnly } = this.#request;
    const { path } = await this.file.ready();
    const { warehouse, authorize } = this.target;
    const work = {
      file: { path, format, csv },
      columns: columns?.map(inferColumn),
      types: types && Object.fromEntries(Object.entries(types).map(([name, type]) => [name, parseType(type)])),
      readsAllRows: inferFrom === 'all',
      rowsMax: inferOnly ? previewRows : 0,
    };
    const inferred = await warehouses.admit(warehouse, this.#run, async (engine) => {
      await authorize();
      return engine.inferTable(work, this.#run);
    });
    const spec = definitions.specOf(this.#request, inferred.columns, await warehouses.engineOf(warehouse));
    return { spec, inferred };
  }

  /** Loads the rows of the file into the table as defined. */
  async fill(
    table: { readonly id: string | undefined; readonly spec: TableSpec },
    step: string,
    isNewTable = false,
  ): Promise<NewTableResult> {
    const { table: name } = this.#request;
    const target = { ...this.target, table: { id: table.id, name }, definition: table.spec };
    const resolveExecution = async (): Promise<LoadExecution> => {
      const { loaded: columns, schema } = (await this.inferred()).inferred;
      return { mode: 'append', columns, schema, isNewTable };
    };
    const result = await this.#parts.pipeline.load(target, this.#request, step, resolveExecution, this.file, this.#run);
    return { ...result, table: name };
  }
}

/** Throws CHANGE_IN_PROGRESS, for which the task begins again: each move gives the catalog another id. */
function requireUnmoved(root: CatalogObject, now: CatalogObject): void {
  if (now.id === root.id) return;
  throw new Failure('CHANGE_IN_PROGRESS', 'the catalog was moved to another warehouse while the file arrived');
}

function inferColumn({ name, source, expression, type, defaultValue }: ColumnRequest): InferColumn {
  const isOptional = defaultValue !== undefined && defaultValue !== null && source === undefined;
  return { name, source, expression, type: type === undefined ? undefined : parseType(type), isOptional };
}

function parseRow(text: string): readonly unknown[] {
  const row = parseJson(text, valueDepthMax);
  assert(Array.isArray(row), 'the engine returns rows as arrays');
  return row;
}

/** The source of a column, in the form of a request. */
function columnSource(
  name: string,
  { loaded }: InferredTable,
): { readonly source?: string; readonly expression?: string } {
  const { source, expression } = loaded?.find((column) => column.name === name) ?? {};
  return { ...(source === undefined ? {} : { source }), ...(expression === undefined ? {} : { expression }) };
}
