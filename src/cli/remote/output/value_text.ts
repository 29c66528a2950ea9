// The text of values of results: for a person, and as exact JSON.
import { Buffer } from 'node:buffer';
import { ExactNumber } from '../../../client/json/exact_json.ts';
import type { Value } from '../../../client/values.ts';
import { type LogicalType, parseType } from '../../../model/types.ts';

type Write = (value: Value) => string;

const types = new Map<string, Write>();

/** JSON as in a response of the server (rest-standard B7): wide integers and decimals are exact numbers. */
export function jsonText(value: Value, type: string): string {
  let write = types.get(type);
  if (!write) {
    write = writerOf(parseType(type));
    types.set(type, write);
  }
  return write(value);
}

/** For a person: a text as it is, other values as in JSON. Not for null. */
export function valueText(value: Value, type: string): string {
  if (typeof value === 'string') return value;
  const json = jsonText(value, type);
  return json.startsWith('"') ? (JSON.parse(json) as string) : json;
}

const nullable =
  (write: Write): Write =>
  (value) =>
    value === null ? 'null' : write(value);

function writerOf(type: LogicalType): Write {
  return nullable(ofPresent(type));
}

function ofPresent(type: LogicalType): Write {
  switch (type.kind) {
    case 'BIGINT':
    case 'LARGEINT':
    case 'DECIMAL':
      return String;
    case 'FLOAT':
    case 'DOUBLE':
      return (value) => (Number.isFinite(value) ? JSON.stringify(value) : JSON.stringify(String(value)));
    case 'BINARY':
      return (value) => JSON.stringify(Buffer.from(value as Uint8Array).toString('base64'));
    case 'ARRAY': {
      const write = writerOf(type.element);
      return (value) => `[${(value as readonly Value[]).map(write).join(',')}]`;
    }
    case 'MAP': {
      const [key, entry] = [writerOf(type.key), writerOf(type.value)];
      return (value) => {
        const entries = [...(value as ReadonlyMap<Value, Value>)];
        return `[${entries.map(([name, item]) => `{"key":${key(name)},"value":${entry(item)}}`).join(',')}]`;
      };
    }
    case 'STRUCT': {
      const fields = type.fields.map((field) => [field.name, writerOf(field.type)] as const);
      return (value) => {
        const struct = value as Readonly<Record<string, Value>>;
        return `{${fields.map(([name, write]) => `${JSON.stringify(name)}:${write(struct[name] ?? null)}`).join(',')}}`;
      };
    }
    default:
      return (value) => exactJson(value);
  }
}

/** JSON of what the client read: numbers that a double does not hold are written as they were sent. */
export const exactJson = (value: unknown, indent?: number): string => JSON.stringify(value, exactNumber, indent);

function exactNumber(this: Readonly<Record<string, unknown>>, key: string, value: unknown): unknown {
  const original = this[key];
  if (typeof original === 'bigint') return JSON.rawJSON(String(original));
  return original instanceof ExactNumber ? JSON.rawJSON(original.text) : value;
}
