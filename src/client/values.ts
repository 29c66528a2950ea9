// Values of results in JavaScript, by the type of their column. A query is answered with wide numbers as strings, which loses nothing.
import { type LogicalType, parseType } from '../model/types.ts';

/** BIGINT and LARGEINT: bigint; DECIMAL: string; BINARY: Uint8Array; dates and times: strings as in JSON; MAP: Map. */
export type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | readonly Value[]
  | ReadonlyMap<Value, Value>
  | { readonly [field: string]: Value };

type Decode = (value: never) => Value;

/** The function from JSON values of a type to JavaScript values; null stays null. `type`: its text, as in `columns` of a result. */
export function decoderOf(type: string): (value: unknown) => Value {
  return nullable(decode(parseType(type)));
}

const nullable =
  (decodeValue: Decode) =>
  (value: unknown): Value =>
    value === null ? null : decodeValue(value as never);

function decode(type: LogicalType): Decode {
  switch (type.kind) {
    case 'BIGINT':
    case 'LARGEINT':
      return (value: string | number) => BigInt(value);
    case 'DECIMAL':
      return (value: string | number) => String(value);
    case 'FLOAT':
    case 'DOUBLE':
      return (value: string | number) => Number(value);
    case 'BINARY':
      return (value: string) => Uint8Array.from(atob(value), (character) => character.charCodeAt(0));
    case 'ARRAY': {
      const element = nullable(decode(type.element));
      return (values: readonly unknown[]) => values.map(element);
    }
    case 'MAP': {
      const [key, value] = [nullable(decode(type.key)), nullable(decode(type.value))];
      return (entries: readonly { readonly key: unknown; readonly value: unknown }[]) =>
        new Map(entries.map((entry) => [key(entry.key), value(entry.value)]));
    }
    case 'STRUCT': {
      const fields = type.fields.map((field) => [field.name, nullable(decode(field.type))] as const);
      return (struct: Readonly<Record<string, unknown>>) =>
        Object.fromEntries(fields.map(([name, decodeField]) => [name, decodeField(struct[name])]));
    }
    default:
      return (value: Value) => value;
  }
}
