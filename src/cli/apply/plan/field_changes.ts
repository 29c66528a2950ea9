// Compares the fields that a file declares with those of a record, and computes the PATCH between them. A field that the file leaves out is
// left as it is.
import { isDeepStrictEqual } from 'node:util';
import { categoriesApi } from '../../../api/categories.ts';
import type { DeclaredCategory } from '../../../api/declare.ts';
import { withoutWriteOnly } from '../../../standard/schema/write_only.ts';
import type { TSchema } from '../../../standard/type.ts';
import { canonicalUri } from '../files/canonical_uri.ts';
import type { Fields } from '../files/declaration.ts';
import { endpointOf, type Kind } from '../files/kinds.ts';
import type { Difference } from './plan.ts';

export interface FieldChanges {
  readonly patch: Fields;
  readonly differences: readonly Difference[];
  /** Fields that differ and that no update changes. */
  readonly fixed: readonly Difference[];
}

export function changedFields(kind: Kind, declared: Fields, record: Fields): FieldChanges {
  const changeable = endpointOf(kind, 'update').body?.properties ?? {};
  const patch: Record<string, unknown> = {};
  const differences: Difference[] = [];
  const fixed: Difference[] = [];
  for (const [name, value] of Object.entries(declared)) {
    const schema = endpointOf(kind, 'create').body?.properties[name];
    const [wanted, present] = [normal(name, value, schema), normal(name, record[name], schema)];
    if (isDeepStrictEqual(wanted, present)) continue;
    const difference: Difference = {
      sign: '~',
      field: name,
      from: valueText(name, present),
      to: valueText(name, wanted),
    };
    if (!Object.hasOwn(changeable, name)) {
      fixed.push(difference);
      continue;
    }
    differences.push(difference);
    patch[name] = replacing(withSecrets.has(name) ? value : (wanted ?? null), present);
  }
  return { patch, differences, fixed };
}

/** The fields of a new object, as lines of the plan. */
export const newFields = (declared: Fields): Difference[] =>
  Object.entries(declared).flatMap(([field, value]): Difference[] =>
    value === null || value === undefined ? [] : [{ sign: '+', field, to: valueText(field, normal(field, value)) }],
  );

interface Schema {
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly anyOf?: readonly Schema[];
}

/** Fields that are sent as they are declared, because they may have secrets. */
const withSecrets = new Set(['notify', 'request']);

/** Without nulls, with the defaults of the schema in objects, and without what a record never shows. */
function normal(name: string, value: unknown, schema?: TSchema): unknown {
  if (value === null || value === undefined) return name === 'properties' ? {} : undefined;
  if (name === 'notify') return shownNotification(value as Fields);
  if (name === 'members') return [...new Set(value as readonly string[])].sort();
  const shown = name === 'request' ? shownRequest(value as Fields) : value;
  return withDefaults(shown, schema as Schema | undefined);
}

function withDefaults(value: unknown, schema: Schema | undefined): unknown {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value;
  const properties = schema?.properties ?? schema?.anyOf?.find((each) => each.properties)?.properties ?? {};
  const defaults = Object.entries(properties).flatMap(([name, each]) =>
    each.default === undefined ? [] : [[name, each.default]],
  );
  const given = Object.entries(value)
    .filter(([, member]) => member !== null && member !== undefined)
    .map(([name, member]) => [
      name,
      name === 'on' ? canonicalUri(String(member)) : withDefaults(member, properties[name]),
    ]);
  return Object.fromEntries([...defaults, ...given].toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1)));
}

/** The record has the host and whether there is a secret; URL and secret are never returned. */
function shownNotification(value: Fields): Fields {
  if (value.url === undefined) return value;
  return { host: URL.parse(String(value.url))?.host ?? '', signed: value.secret !== undefined };
}

/** Without the secrets in its body, which a record never shows. */
function shownRequest(value: Fields): Fields {
  const { action } = value;
  const body = value.body ?? {};
  const schemas = categoriesApi.flatMap(({ endpoints }) =>
    Object.entries(endpoints as DeclaredCategory['endpoints']).flatMap(([name, endpoint]) =>
      endpoint.schedulable && (endpoint.action ?? name) === action && endpoint.body ? [endpoint.body] : [],
    ),
  );
  return { ...value, body: schemas.reduce<unknown>(withoutWriteOnly, body) };
}

/** A PATCH merges objects, so what is no longer wanted in one is removed by a null. */
function replacing(wanted: unknown, present: unknown): unknown {
  const isObject = (value: unknown): value is Fields =>
    typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isObject(wanted) || !isObject(present)) return wanted;
  const removed = Object.keys(present).filter((name) => !Object.hasOwn(wanted, name));
  const members = Object.entries(wanted).map(([name, member]) => [name, replacing(member, present[name])]);
  return Object.fromEntries([...members, ...removed.map((name) => [name, null])]);
}

const charactersMax = 200;

/** For a person. The body of a scheduled request can have secrets. */
export function valueText(field: string, value: unknown): string {
  if (value === undefined || value === null) return 'none';
  const shown = field === 'request' ? { ...(value as Fields), body: undefined } : value;
  const text = typeof shown === 'string' && field === 'sql' ? shown : JSON.stringify(shown);
  return text.length > charactersMax && field !== 'sql' ? `${text.slice(0, charactersMax)}…` : text;
}
