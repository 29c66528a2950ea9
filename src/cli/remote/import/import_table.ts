// Brings one table over: creates it, loads its rows as one file, and compares the checksums of both sides. A table with rows is not loaded
// again, so that an import that is repeated or was interrupted does nothing twice.
import { hash } from 'node:crypto';
import type { Client } from '../../../client/client.ts';
import { TabulariumError } from '../../../client/errors.ts';
import { Task } from '../../../client/task.ts';
import type { ImportSource, NotCarried, SourceTable, TextRows } from '../../../model/import_source.ts';
import { checksumDifference, type TableChecksum } from '../../../model/table_checksum.ts';
import { formatType } from '../../../model/types.ts';
import { OperatorError } from '../../../operator/operator_error.ts';
import type { Output } from '../output/output.ts';
import { bytesText, progressLine, rateText } from '../output/progress_line.ts';
import { waitForTask } from '../task_progress.ts';
import { csvChunks, csvOptions, fileColumn } from './csv_rows.ts';
import { TextChecksum } from './text_checksum.ts';

export interface TableOutcome {
  readonly name: string;
  /** `present`: it had the same rows before. `different`: its rows are others than those of the source. */
  readonly state: 'loaded' | 'present' | 'different' | 'failed';
  readonly rows: number;
  /** Why it failed or is different. */
  readonly reason?: string;
}

export interface TableImport {
  readonly source: ImportSource;
  readonly database: ReturnType<ReturnType<Client['catalogs']>['databases']>;
  readonly client: Client;
  readonly output: Output;
  readonly signal: AbortSignal;
  readonly notCarried: NotCarried[];
}

/** Throws what makes further tables pointless: the source or the server is gone, or the caller may not do it. */
export async function importTable(table: SourceTable, work: TableImport): Promise<TableOutcome> {
  try {
    const isNew = await createTable(table, work);
    return await new ImportedTable(table, work).fill(isNew);
  } catch (error) {
    const isOfTable =
      error instanceof TabulariumError &&
      error.status !== 0 &&
      error.status < 500 &&
      ![401, 403].includes(error.status);
    if (!isOfTable || work.signal.aborted) throw error;
    return { name: table.name, state: 'failed', rows: table.rowCount ?? 0, reason: `${error.code}: ${error.message}` };
  }
}

/** @returns false if it exists. Throws OperatorError if it has other columns. */
async function createTable(table: SourceTable, work: TableImport): Promise<boolean> {
  const { database, signal } = work;
  const existing = await database
    .tables(table.name)
    .get({ signal })
    .catch((error: unknown) => {
      if (error instanceof TabulariumError && error.code === 'OBJECT_NOT_FOUND') return undefined;
      throw error;
    });
  if (existing) {
    const shape = (columns: readonly { readonly name: string; readonly type: string }[]) =>
      JSON.stringify(columns.map(({ name, type }) => [name, type]));
    const wanted = table.columns.map(({ name, type }) => ({ name, type: formatType(type) }));
    if (shape(existing.columns) === shape(wanted)) {
      listKeys(table, existing, work);
      return false;
    }
    throw new OperatorError(
      `the table ${table.name} exists with other columns; drop it, or import into another database`,
    );
  }
  const columns = table.columns.map(({ name, type, nullable, defaultValue, comment }) => ({
    name,
    type: formatType(type),
    nullable,
    ...(defaultValue === undefined ? {} : { defaultValue }),
    ...(comment === undefined ? {} : { comment }),
  }));
  const keys = {
    ...(table.primaryKey.length > 0 ? { primaryKey: table.primaryKey } : {}),
    ...(table.uniqueKey.length > 0 ? { unique_key_constraints: table.uniqueKey } : {}),
  };
  const definition = { name: table.name, columns, ...(table.comment === undefined ? {} : { comment: table.comment }) };
  try {
    await database.tables.create({ ...definition, ...keys }, { signal }).done({ signal });
  } catch (error) {
    const isWithoutKeys = error instanceof TabulariumError && error.code === 'NOT_SUPPORTED_BY_ENGINE';
    if (!isWithoutKeys || Object.keys(keys).length === 0) throw error;
    listKeys(table, { primaryKey: [], unique_key_constraints: [] }, work);
    await database.tables.create(definition, { signal }).done({ signal });
  }
  return true;
}

interface Keys {
  readonly primaryKey: readonly string[];
  readonly unique_key_constraints: readonly string[];
}

/** Lists the keys of the source that the table lacks, because its engine does not enforce them. */
function listKeys(table: SourceTable, present: Keys, { notCarried }: TableImport): void {
  for (const [kind, wanted, own] of [
    ['primary key', table.primaryKey, present.primaryKey],
    ['unique key', table.uniqueKey, present.unique_key_constraints],
  ] as const)
    if (wanted.length > 0 && own.length === 0)
      notCarried.push({
        object: table.name,
        kind,
        text: `(${wanted.join(', ')}) is not enforced by the engine of the catalog`,
      });
}

class ImportedTable {
  readonly #table: SourceTable;
  readonly #work: TableImport;

  constructor(table: SourceTable, work: TableImport) {
    this.#table = table;
    this.#work = work;
  }

  async fill(isNew: boolean): Promise<TableOutcome> {
    const { name, rowCount } = this.#table;
    const before = isNew ? undefined : await this.#serverChecksum();
    if (before !== undefined && before.rows > 0) {
      const compared = this.#compared(await this.#sourceChecksum(), before);
      return compared ?? { name, state: 'present', rows: before.rows };
    }
    if (before !== undefined && rowCount === 0) return { name, state: 'present', rows: 0 };
    const loaded = await this.#load();
    const compared = this.#compared(loaded, await this.#serverChecksum());
    return compared ?? { name, state: 'loaded', rows: loaded.rows };
  }

  /** Undefined: both have the same rows. */
  #compared(source: TableChecksum, server: TableChecksum): TableOutcome | undefined {
    const { name, columns } = this.#table;
    const difference = checksumDifference(columns, source, server);
    if (difference === undefined) return undefined;
    const what =
      difference.column === null
        ? `it has ${server.rows} rows, the source ${source.rows}`
        : `the values of its column ${difference.column} are others than those of the source`;
    const reason = `${what}; drop the table and import again, or import into another database`;
    return { name, state: 'different', rows: server.rows, reason };
  }

  async #serverChecksum(): Promise<TableChecksum> {
    const { database, output, signal } = this.#work;
    const submitted = await database.tables(this.#table.name).checksum({}, { signal });
    const result = submitted instanceof Task ? await waitForTask(submitted, output, signal) : submitted;
    const { rowCount, columns } = result;
    return { rows: rowCount, columns: columns.map(({ nulls, sums }) => ({ nulls, sums })) };
  }

  async #sourceChecksum(): Promise<TableChecksum> {
    const checksum = this.#newChecksum();
    await this.#showing(async (show) => {
      for await (const batch of this.#rows()) {
        for (const row of batch) checksum.add(row);
        show(`${checksum.rows} rows compared`, checksum.rows);
      }
    });
    return checksum.value;
  }

  /** @returns the checksum of what was sent. */
  async #load(): Promise<TableChecksum> {
    const { client, database, output, signal } = this.#work;
    const { name, columns } = this.#table;
    const checksum = this.#newChecksum();
    const began = performance.now();
    const upload = await this.#showing((show) =>
      client.upload(
        csvChunks(this.#rows(), columns.length, (row) => checksum.add(row)),
        {
          name: 'rows.csv',
          signal,
          onProgress: ({ bytes }) =>
            show(`${checksum.rows} rows, ${bytesText(bytes)} sent, ${rateText(bytes, began)}`, checksum.rows),
        },
      ),
    );
    const { value } = checksum;
    if (value.rows === 0) return value;
    // The label says what is loaded: the next import does not repeat a load that continues after its import was killed.
    const label = labelOf(value);
    const body = {
      source: { upload: upload.uploadId },
      format: 'csv' as const,
      csv: csvOptions,
      columns: columns.map((column, i) => ({ name: column.name, source: fileColumn(i) })),
      label,
    };
    const submitted = await database.tables(name).load(body, { signal });
    if (submitted instanceof Task) await waitForTask(submitted, output, signal);
    return value;
  }

  #newChecksum(): TextChecksum {
    return new TextChecksum(this.#table.columns.map(({ type }) => type));
  }

  #rows(): TextRows {
    return this.#work.source.rows(this.#table, this.#work.signal);
  }

  async #showing<T>(work: (show: (text: string, rows: number) => void) => Promise<T>): Promise<T> {
    const line = progressLine(this.#work.output);
    const began = performance.now();
    const { name, rowCount } = this.#table;
    try {
      return await work((text, rows) =>
        line.show(`${name}: ${text}`, rowCount === undefined || rowCount === 0 ? null : rows / rowCount, began),
      );
    } finally {
      line.end();
    }
  }
}

const labelCharactersMax = 255;

function labelOf({ rows, columns }: TableChecksum): string {
  const sums = columns.map(({ nulls, sums: [a = '', b = ''] }) => `${nulls}.${a}.${b}`).join(' ');
  return `import of ${rows} rows: ${hash('sha256', sums)}`.slice(0, labelCharactersMax);
}
