// Loads of files into tables that are made for them: what the file and the caller say of the table becomes its definition. The table
// is made and filled by a task (jobs/load_database.ts); nobody sees it before it is full.
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { CatalogObject, CreationWork } from '../../catalog/object.ts';
import type { Engine } from '../../engines/engine.ts';
import type { InferColumn, InferredTable } from '../../engines/load.ts';
import type { Warehouses } from '../../engines/warehouses.ts';
import type { Principal } from '../../model/principal.ts';
import type { CatalogSpec, ColumnDefinition, DatabaseSpec, TableDefinition, TableSpec } from '../../model/records.ts';
import { parseType } from '../../model/types.ts';
import { Failure } from '../../standard/failure.ts';
import { parseJson } from '../../standard/json.ts';
import type { Segment } from '../../standard/paths.ts';
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
import { requireOneOrigin } from './load_pipeline.ts';

/** So many rows are shown of a table that is not made yet. */
const shownRows = 10;
/** Values of files nest as deep as they like. */
const valueDepthMax = 10_000;

/** A column of the table as the caller wants it; what is left out is the file's to say. */
export interface ColumnRequest {
  readonly name: string;
  readonly source?: string;
  readonly expression?: string;
  readonly type?: string;
  readonly nullable?: boolean;
  readonly defaultValue?: string | number | boolean | null;
  readonly comment?: string | null;
}

/** What a caller asks for; `definition` is the table's but for its columns. */
export interface NewTableInput extends FileInput {
  readonly table: string;
  readonly columns?: readonly ColumnRequest[] | undefined;
  /** Names of the file to types. */
  readonly types?: Readonly<Record<string, string>> | undefined;
  readonly inferFrom?: 'sample' | 'all' | undefined;
  readonly definition: object;
  /** Of the table, if not the caller; here only to be shown. */
  readonly owner?: string | undefined;
  /** Nothing is made. */
  readonly inferOnly?: boolean | undefined;
}

export interface NewTableRequest extends NewTableInput, FileRequest {
  readonly format: FileRequest['format'];
  readonly compression: FileRequest['compression'];
  /** Of the database. */
  readonly path: readonly Segment[];
  readonly databaseId: string;
  /** The table that a load of this label made: its result is asked for. */
  readonly repeatOf?: string | undefined;
}

/** What a table definition is made of and shown as, which is its category's to say. */
export interface Definitions {
  /** Throws INVALID_PARAMETER. */
  readonly specOf: (asked: NewTableInput, inferred: readonly ColumnDefinition[], engine: Engine) => TableSpec;
  /** As a caller sends it. */
  readonly bodyOf: (spec: TableSpec) => { readonly columns: readonly { readonly name: string }[] };
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
  readonly steps: LoadPipeline;
  readonly definitions: Definitions;
}

export class NewTableLoads {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** What the task is to do. Throws what can be said at once. */
  async request(path: readonly Segment[], asked: NewTableInput, principal: Principal): Promise<NewTableRequest> {
    const { catalog, steps } = this.#parts;
    const [root, database] = (await catalog.require(path)) as Parents;
    await steps.requireUse(root.spec.warehouse, principal);
    const checked = await steps.checked(asked, principal);
    requireOneOrigin(asked.columns);
    return { ...checked, path, databaseId: database.id };
  }

  /** The table as it would be, with its first rows. */
  async infer(request: NewTableRequest, run: LoadRun): Promise<object> {
    const parents = await this.#authorised(request, run.principal);
    return this.#with(request, run, parents, async (making) => {
      const { spec, inferred } = await making.found();
      const { columns, ...body } = this.#parts.definitions.bodyOf(spec);
      const { delimiter, header, dateFormat, timestampFormat } = inferred.shape.csv;
      return {
        ...(request.table === '' ? {} : { table: request.table }),
        columns: columns.map((column) => ({ ...column, ...originOf(column.name, inferred) })),
        ...body,
        rows: inferred.rows.map((row) => parseJson(row, valueDepthMax)),
        format: request.format,
        compression: request.compression,
        ...(request.format === 'csv'
          ? { csv: { ...request.csv, delimiter, header, dateFormat, timestampFormat } }
          : {}),
        bytes: (await making.file.ready()).bytes,
      };
    });
  }

  /** Everything is done, counted, and undone. */
  async dryRun(request: NewTableRequest, run: LoadRun): Promise<NewTableResult> {
    const parents = await this.#authorised(request, run.principal);
    return this.#with(request, run, parents, async (making) => {
      const { spec } = await making.found();
      return making.fill({ id: undefined, spec }, `load/${run.taskId}`, true);
    });
  }

  /**
   * What the catalog needs to make the table (`Catalog.runCreation`), and the result afterwards: also where a former attempt made it.
   */
  async make(
    request: NewTableRequest,
    run: LoadRun,
    runCreation: (work: CreationWork) => Promise<CatalogObject>,
  ): Promise<NewTableResult> {
    const { steps, definitions } = this.#parts;
    const { label } = request;
    const { taskId } = run;
    const parents = await this.#parents(request);
    return this.#with(request, run, parents, async (making) => {
      let object: { id: string; spec: TableSpec } | undefined;
      const made = await runCreation({
        define: async ({ id, spec }) => {
          await this.#authorised(request, run.principal);
          object = { id, spec: spec as TableSpec };
          if (object.spec.columns.length > 0) return undefined;
          const found = await making.found();
          object = { id, spec: found.spec };
          const { catalog, database } = making.place;
          const definition = definitions.definitionOf(found.spec);
          const table = { catalog, database, table: request.table };
          return { spec: found.spec, change: { kind: 'createTable', table, definition } };
        },
        fill: async () => {
          if (!object) throw new Error('a table is filled before it is defined');
          const step = label === undefined ? `load/${taskId}` : `label/${object.id}/${label}`;
          // Kept before anybody sees the table: the file may be gone when it is asked for again.
          await steps.keep(object.id, label, taskId, await making.fill(object, step));
          return undefined;
        },
      });
      const kept = await steps.kept(made.id, label, taskId);
      if (!kept) throw new Failure('OBJECT_NOT_FOUND', 'the table is gone', { category: 'tables', name: made.name });
      await steps.useUp(request);
      return { ...kept, table: made.name };
    });
  }

  /** What the load of this label said, to who may load the table. */
  async repeated(
    { repeatOf, label, table, path }: NewTableRequest,
    { taskId, principal }: LoadRun,
  ): Promise<NewTableResult> {
    const place = { category: 'catalogs', path: [...path, { category: 'tables', name: table }] };
    await this.#parts.authorizer.require(principal, 'write', place);
    const kept = repeatOf === undefined ? undefined : await this.#parts.steps.kept(repeatOf, label, taskId);
    if (!kept) throw new Failure('OBJECT_NOT_FOUND', 'the table is no more', { category: 'tables', name: table });
    return { ...kept, table };
  }

  /** The load of this label that made, or is making, the table of this name: its task, and the table where it is there. */
  async labelled({
    path,
    databaseId,
    table: name,
    label,
  }: NewTableRequest): Promise<{ readonly taskId: string; readonly tableId: string | undefined } | undefined> {
    if (label === undefined) return undefined;
    const { catalog, steps } = this.#parts;
    const table = (await catalog.find([...path, { category: 'tables', name }]))?.at(-1);
    if (!table) {
      const taskId = await catalog.findCreationTask(databaseId, 'tables', name);
      return taskId === undefined ? undefined : { taskId, tableId: undefined };
    }
    const taskId = await steps.taskOf(table.id, label);
    // A load into a table that was there is another.
    const kept = taskId === undefined ? undefined : await steps.kept(table.id, label, taskId);
    return kept && 'table' in kept && taskId !== undefined ? { taskId, tableId: table.id } : undefined;
  }

  async #parents({ path }: NewTableRequest): Promise<Parents> {
    return (await this.#parts.catalog.require(path)) as Parents;
  }

  /** Rights and names are those of now: a task may have waited. */
  async #authorised(request: NewTableRequest, principal: Principal): Promise<Parents> {
    const { authorizer, steps } = this.#parts;
    await authorizer.require(principal, 'create', { category: 'catalogs', path: request.path });
    const parents = await this.#parents(request);
    await steps.requireUse(parents[0].spec.warehouse, principal);
    if (parents[1].id === request.databaseId) return parents;
    throw new Failure('OBJECT_NOT_FOUND', 'the database of the new table is no more', {
      category: 'databases',
      name: parents[1].name,
    });
  }

  async #with<T>(
    request: NewTableRequest,
    run: LoadRun,
    parents: Parents,
    work: (making: Making) => Promise<T>,
  ): Promise<T> {
    const file = this.#parts.steps.file(request, run);
    try {
      return await work(new Making(this.#parts, { request, run, parents, file }));
    } finally {
      await file.close();
    }
  }
}

interface Found {
  readonly spec: TableSpec;
  readonly inferred: InferredTable;
}

/** One attempt: its file, and what was found in it. */
class Making {
  readonly place: Pick<LoadTarget, 'warehouse' | 'catalog' | 'database'>;
  readonly file: RunFile;
  readonly #parts: Parts;
  readonly #request: NewTableRequest;
  readonly #run: LoadRun;
  #found: Promise<Found> | undefined;

  constructor(
    parts: Parts,
    of: {
      readonly request: NewTableRequest;
      readonly run: LoadRun;
      readonly parents: Parents;
      readonly file: RunFile;
    },
  ) {
    const [root, database] = of.parents;
    this.#parts = parts;
    this.#request = of.request;
    this.#run = of.run;
    this.file = of.file;
    this.place = {
      warehouse: root.spec.warehouse,
      catalog: { id: root.id, name: root.name },
      database: database.name,
    };
  }

  found(): Promise<Found> {
    this.#found ??= this.#find();
    return this.#found;
  }

  async #find(): Promise<Found> {
    const { warehouses, definitions } = this.#parts;
    const { format, csv = {}, columns, types, inferFrom, inferOnly } = this.#request;
    const { path } = await this.file.ready();
    const { warehouse } = this.place;
    const work = {
      file: { path, format, csv },
      columns: columns?.map(inferColumn),
      types: types && Object.fromEntries(Object.entries(types).map(([name, type]) => [name, parseType(type)])),
      isWhole: inferFrom === 'all',
      rowsMax: inferOnly ? shownRows : 0,
    };
    const inferred = await warehouses.admit(warehouse, this.#run, (engine) => engine.inferTable(work, this.#run));
    const spec = definitions.specOf(this.#request, inferred.columns, await warehouses.engineOf(warehouse));
    return { spec, inferred };
  }

  /** The rows of the file, into the table as it was defined. */
  async fill(
    table: { readonly id: string | undefined; readonly spec: TableSpec },
    step: string,
    isUnmade = false,
  ): Promise<NewTableResult> {
    const { table: name } = this.#request;
    const target = { ...this.place, table: { id: table.id, name }, definition: table.spec };
    const manner = async (): Promise<LoadExecution> => {
      const { loaded: columns, shape } = (await this.found()).inferred;
      return { mode: 'append', columns, shape, isUnmade };
    };
    const result = await this.#parts.steps.load(target, this.#request, step, manner, this.file, this.#run);
    return { ...result, table: name };
  }
}

function inferColumn({ name, source, expression, type, defaultValue }: ColumnRequest): InferColumn {
  const isOptional = defaultValue !== undefined && defaultValue !== null && source === undefined;
  return { name, source, expression, type: type === undefined ? undefined : parseType(type), isOptional };
}

/** Where a column of the table comes from, as a caller would say it. */
function originOf(name: string, { loaded }: InferredTable): { readonly source?: string; readonly expression?: string } {
  const { source, expression } = loaded?.find((one) => one.name === name) ?? {};
  return { ...(source === undefined ? {} : { source }), ...(expression === undefined ? {} : { expression }) };
}
