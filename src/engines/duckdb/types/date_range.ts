// An expression that counts the dates and times of a value that are out of a range, also those within lists, maps and structs.
import type { LogicalType, TypeKind } from '../../../model/types.ts';
import type { DateRange } from '../../port/engine.ts';
import { quoteLiteral } from '../sql/identifiers.ts';

/** How SQL writes a time of a day. */
const literals: Partial<Record<TypeKind, (date: string, time: string) => string>> = {
  DATE: (date) => `DATE '${date}'`,
  DATETIME: (date, time) => `TIMESTAMP '${date} ${time}'`,
  TIMESTAMPTZ: (date, time) => `TIMESTAMPTZ '${date} ${time}+00'`,
};

/** Its value is 0 for null. Undefined if a value of the type has no dates. */
export function datesOutside(value: string, type: LogicalType, range: DateRange, depth = 0): string | undefined {
  const ofItems = (list: string, item: LogicalType): string | undefined => {
    const name = `e${depth}`;
    const count = datesOutside(name, item, range, depth + 1);
    return count && `coalesce(list_sum(list_transform(${list}, lambda ${name}: ${count})), 0)`;
  };
  switch (type.kind) {
    case 'ARRAY':
      return ofItems(value, type.element);
    case 'MAP':
      return sumOf([ofItems(`map_keys(${value})`, type.key), ofItems(`map_values(${value})`, type.value)]);
    case 'STRUCT':
      return sumOf(
        type.fields.map((field) =>
          datesOutside(`struct_extract(${value}, ${quoteLiteral(field.name)})`, field.type, range, depth),
        ),
      );
    default: {
      const literal = literals[type.kind];
      if (!literal) return undefined;
      const [from, to] = [literal(range.first, '00:00:00'), literal(range.last, '23:59:59.999999')];
      return `CASE WHEN ${value} < ${from} OR ${value} > ${to} THEN 1 ELSE 0 END`;
    }
  }
}

function sumOf(counts: readonly (string | undefined)[]): string | undefined {
  const present = counts.filter((count) => count !== undefined);
  return present.length === 0 ? undefined : `(${present.join(' + ')})`;
}
