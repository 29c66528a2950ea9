// Records and results of calls, as tables or field by field for a person, or as exact JSON.

import type { Column } from '../../../client/query.ts';
import type { Value } from '../../../client/values.ts';
import type { TObject, TSchema } from '../../../standard/type.ts';
import { type RowFormat, type RowFormatOptions, type RowWriter, writerOf } from './row_formats.ts';
import { exactJson } from './value_text.ts';

export type Fields = Readonly<Record<string, unknown>>;

/** Fields that lists leave out of their tables; a record shown alone has them. */
const rarelyRead = new Set(['uri', 'version', 'createdAt', 'createdBy', 'updatedBy', 'stateReason', 'properties']);
const columnsMax = 8;
const text: Pick<Column, 'type'> = { type: 'STRING' };
const number: Pick<Column, 'type'> = { type: 'DOUBLE' };

interface Schema {
  readonly type?: string;
  readonly anyOf?: readonly Schema[];
}

function columnOf(schema: TSchema): Pick<Column, 'type'> | undefined {
  const { type, anyOf } = schema as Schema;
  const kinds = anyOf ? anyOf.map((each) => each.type) : [type];
  const present = kinds.filter((kind) => kind !== 'null');
  if (present.every((kind) => kind === 'integer' || kind === 'number')) return number;
  return present.every((kind) => kind === 'string' || kind === 'boolean' || kind === undefined) ? text : undefined;
}

/** The columns of a table of records: the fields that are single values, most important first as they are declared. */
function listColumns(record: TObject): readonly Column[] {
  const columns = Object.entries(record.properties).flatMap(([name, schema]) => {
    const column = rarelyRead.has(name) ? undefined : columnOf(schema);
    return column ? [{ name, ...column }] : [];
  });
  return columns.slice(0, columnsMax);
}

const cellOf = (value: unknown): Value => {
  if (value === null || value === undefined) return null;
  return typeof value === 'object' ? exactJson(value) : typeof value === 'boolean' ? String(value) : (value as Value);
};

/** Writes records of a list, in the columns of their schema; JSON has all fields. */
export function recordWriter(
  record: TObject,
  format: RowFormat,
  options: RowFormatOptions,
): { records(records: readonly Fields[]): string; end(count: number): string } {
  if (format === 'json' || format === 'ndjson') return jsonRecords(format);
  const columns = format === 'table' || format === 'markdown' ? listColumns(record) : allColumns(record);
  const writer: RowWriter = writerOf(format, columns, options);
  return {
    records: (records) => writer.rows(records.map((fields) => columns.map(({ name }) => cellOf(fields[name])))),
    end: (count) => writer.end(count),
  };
}

const allColumns = (record: TObject): readonly Column[] =>
  Object.entries(record.properties).map(([name, schema]) => ({ name, ...(columnOf(schema) ?? text) }));

function jsonRecords(format: 'json' | 'ndjson') {
  let count = 0;
  return {
    records: (records: readonly Fields[]) =>
      records
        .map((fields) => {
          const lead = format === 'ndjson' ? '' : count++ === 0 ? '[\n' : ',\n';
          return `${lead}${exactJson(fields)}${format === 'ndjson' ? '\n' : ''}`;
        })
        .join(''),
    end: () => (format === 'ndjson' ? '' : count === 0 ? '[]\n' : '\n]\n'),
  };
}

/** A record field by field, without those that are absent. */
export function recordText(fields: Fields): string {
  const shown = Object.entries(fields).filter(([, value]) => value !== undefined);
  const columns = shown.map(([name]) => ({ name, type: 'STRING' }));
  const values = shown.map(([, value]) =>
    value === null ? null : typeof value === 'string' ? value : exactJson(value),
  );
  const [, ...lines] = writerOf('vertical', columns).rows([values]).split('\n');
  return lines.join('\n');
}
