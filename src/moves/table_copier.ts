// Copies the rows of a table from one engine to another, in files or pages of which at most three are on the disk of this server at a time,
// except where the source can only export the whole table. Each copy begins with an empty table, and each of its parts is inserted once.
import { mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { rowsOfParquet } from '../engines/data_files/parquet_footer.ts';
import type { Engine, EngineWarehouse } from '../engines/port/engine.ts';
import type { TableRef } from '../engines/port/refs.ts';
import type { PartToRestore, Snapshot } from '../engines/port/snapshot.ts';
import type { StatementResult } from '../engines/port/statements.ts';
import { newId } from '../model/ids.ts';
import { sqlIdentifier } from '../model/names.ts';
import type { Principal } from '../model/principal.ts';
import type { TableDefinition } from '../model/records.ts';
import type { TypeKind } from '../model/types.ts';
import { rowReader } from '../query/rows/row_validation.ts';
import { parseJson } from '../standard/json/parse_json.ts';
import { readSource } from './source_rows.ts';

/** Of a file that is to measure the speed. */
const rowsOfPart = 1_000_000;
/** How many parts of a table are loaded at the same time. */
const loadsAtOnce = 2;

/** Engines write and read lists, maps, structs and their nulls in files differently: a table with one is copied as rows. */
const rowKinds: ReadonlySet<TypeKind> = new Set(['ARRAY', 'MAP', 'STRUCT']);

/** One of the two warehouses of a move. */
export interface Side {
  readonly adapter: Engine;
  readonly engine: EngineWarehouse;
}

/** The two warehouses of a move, while both have admitted it. */
export interface MoveSides {
  readonly source: Side;
  readonly target: Side;
}

export interface CopiedTable {
  readonly from: TableRef;
  readonly to: TableRef;
  /** In the target. */
  readonly definition: TableDefinition;
}

export interface CopyOptions {
  readonly signal: AbortSignal;
  /** Called with the number of rows that each part adds. */
  readonly copied?: (rows: number) => void;
  /** Copies only so many parts, to measure the speed. */
  readonly partsMax?: number;
  /** As rows: a copy by files was not equal. */
  readonly asRows?: boolean;
}

export interface TableCopierParts {
  /** A directory of this copier. */
  readonly spool: string;
  readonly principal: Principal;
  /** Whose work the copy is, if another process may continue it: see StepOptions. */
  readonly owner?: { readonly work: string; readonly confirm: () => Promise<void> } | undefined;
}

type FileRows = Pick<PartToRestore, 'rows' | 'rowsBefore' | 'isOfOther'>;

export class TableCopier {
  readonly #source: Side;
  readonly #target: Side;
  readonly #spool: string;
  readonly #principal: Principal;
  readonly #owner: TableCopierParts['owner'];
  #files = 0;

  constructor(sides: MoveSides, { spool, principal, owner }: TableCopierParts) {
    this.#source = sides.source;
    this.#target = sides.target;
    this.#spool = spool;
    this.#principal = principal;
    this.#owner = owner;
  }

  /** Replaces the rows of the target by those that the source has now. @returns their number. */
  async copy(table: CopiedTable, options: CopyOptions): Promise<number> {
    await mkdir(this.#spool, { recursive: true, mode: 0o700 });
    const { signal } = options;
    await this.#owner?.confirm();
    const truncation = { step: newId(), ...this.#owner, signal };
    await this.#target.engine.apply({ kind: 'truncateTable', table: table.to }, truncation);
    try {
      const from = this.#source.adapter.capabilities;
      const to = this.#target.adapter.capabilities;
      if (from.catalogSnapshots && to.catalogSnapshots) return await this.#copyParts(table, options);
      const canBeFiles = table.definition.columns.every(({ type }) => !rowKinds.has(type.kind));
      if (to.parquetFiles && canBeFiles && options.asRows !== true) {
        if (from.catalogSnapshots) return await this.#copyParts(table, options);
        if (this.#source.engine.writeCopy) return await this.#copyFile(table, options);
      }
      return await this.#copyPages(table, options);
    } finally {
      await rm(this.#spool, { recursive: true, force: true });
    }
  }

  async #copyParts(table: CopiedTable, options: CopyOptions): Promise<number> {
    const snapshot = await this.#source.engine.snapshot(table.from.catalog, { signal: options.signal });
    try {
      return await this.#copySnapshot(snapshot, table, options);
    } finally {
      await snapshot.close();
    }
  }

  /** A part is written while those before it are loaded. */
  async #copySnapshot(snapshot: Snapshot, table: CopiedTable, options: CopyOptions): Promise<number> {
    const { signal, partsMax = Number.POSITIVE_INFINITY, copied } = options;
    const { database, table: name } = table.from;
    const read = { database, table: name, columns: table.definition.columns, isCopied: true };
    const parts = (await snapshot.parts(read, signal)).slice(0, partsMax);
    // Parts are restored in their order.
    const atOnce = this.#target.adapter.capabilities.catalogSnapshots ? 1 : loadsAtOnce;
    const loads: Promise<void>[] = [];
    let rowsBefore = 0;
    try {
      for (const { part, rows } of parts) {
        const path = this.#file();
        await snapshot.write(read, part, path, signal);
        if (loads.length === atOnce) await loads.shift();
        const file = { rows, rowsBefore };
        const loading = this.#loadFile(table, path, file, signal).then(() => copied?.(rows));
        loading.catch(() => undefined);
        loads.push(loading);
        rowsBefore += rows;
      }
      await Promise.all(loads);
    } finally {
      // A running load reads a file that is deleted when this ends.
      await Promise.allSettled(loads);
    }
    return rowsBefore;
  }

  #file(): string {
    return join(this.#spool, `${this.#files++}.parquet`);
  }

  async #loadFile(
    { to, definition }: CopiedTable,
    path: string,
    { rows, rowsBefore, isOfOther = false }: FileRows,
    signal: AbortSignal,
  ): Promise<void> {
    const { engine, adapter } = this.#target;
    try {
      await this.#owner?.confirm();
      if (adapter.capabilities.catalogSnapshots) {
        const { columns } = definition;
        await engine.restorePart({ table: to, columns, path, rowsBefore, rows, isOfOther, step: newId() }, { signal });
        return;
      }
      const work = {
        table: to,
        definition,
        file: { path, format: 'parquet', csv: {} },
        mode: 'append',
        errorsMax: 0,
        dryRun: false,
        isProved: true,
        rejectsPath: `${path}.rejects`,
        step: newId(),
      } as const;
      const { rowsLoaded } = await engine.load(work, { signal, principal: this.#principal });
      if (rowsLoaded !== rows) throw new Error(`${rowsLoaded} rows were loaded of ${rows}`);
    } finally {
      await rm(path, { force: true });
    }
  }

  async #copyFile(table: CopiedTable, { signal, copied, partsMax }: CopyOptions): Promise<number> {
    const path = this.#file();
    const { columns } = table.definition;
    const rowsMax = partsMax === undefined ? undefined : partsMax * rowsOfPart;
    await this.#source.engine.writeCopy?.({ ...table.from, columns }, path, { signal, rowsMax });
    const rows = await rowsOfParquet(path);
    if (rows === undefined) throw new Error('an engine wrote a file that is no Parquet file');
    if (rows > 0) await this.#loadFile(table, path, { rows, rowsBefore: 0, isOfOther: true }, signal);
    copied?.(rows);
    return rows;
  }

  async #copyPages(table: CopiedTable, options: CopyOptions): Promise<number> {
    const { rows } = await this.#read(table, join(this.#spool, 'rows'), options);
    if (rows.kind === 'text') return this.#insert(table, rows.text, options);
    const file = await open(rows.path);
    try {
      let count = 0;
      const pages = rows.offsets.slice(0, -1).slice(0, options.partsMax);
      for (const [i, start] of pages.entries()) {
        const bytes = Buffer.alloc((rows.offsets[i + 1] ?? start) - start);
        await file.read(bytes, 0, bytes.length, start);
        count += await this.#insert(table, bytes.toString(), options);
      }
      return count;
    } finally {
      await file.close();
    }
  }

  /** `text`: JSON arrays, of which the last may be followed by a comma. */
  async #insert({ to, definition }: CopiedTable, text: string, { signal, copied }: CopyOptions): Promise<number> {
    const rows = parseJson(`[${text.replace(/,\s*$/, '')}]`, Number.POSITIVE_INFINITY) as unknown[];
    if (rows.length === 0) return 0;
    const batch = rowReader(definition.columns).read(rows);
    const steps = [{ step: newId(), rowCount: rows.length }];
    await this.#owner?.confirm();
    await this.#target.engine.insertRows(to, batch, { signal, definition, steps });
    copied?.(rows.length);
    return rows.length;
  }

  async #read(
    { from, definition }: CopiedTable,
    resultPath: string,
    { signal }: CopyOptions,
  ): Promise<StatementResult> {
    const columns = definition.columns.map(({ name }) => sqlIdentifier(name)).join(', ');
    const sql = `SELECT ${columns} FROM ${sqlIdentifier(from.database)}.${sqlIdentifier(from.table)}`;
    const statement = { sql, catalog: from.catalog, database: from.database };
    return readSource(this.#source.engine, statement, { principal: this.#principal, signal, resultPath });
  }
}
