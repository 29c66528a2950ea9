// The kinds of objects that files declare, and the fields of each. They follow from the declarations of the API: a document has the fields of
// the create request, the names of the objects above it, and `renamedFrom` where the category has a rename.
import { categoriesApi } from '../../../api/categories.ts';
import type { DeclaredCategory, DeclaredEndpoint } from '../../../api/declare.ts';
import { columnsApi } from '../../../api/tables/columns.ts';
import { ColumnBody, columnsMax } from '../../../api/tables/table_fields.ts';
import type { Endpoint } from '../../../standard/endpoint.ts';
import { bodyOf, type Check, compileCheck } from '../../../standard/parameters.ts';
import { strictObject, type TProperties, type TSchema, Type } from '../../../standard/type.ts';
import type { Fields } from '../../remote/output/records.ts';
import { ancestorsOf } from '../../remote/resource_commands.ts';

export interface Kind {
  readonly name: string;
  readonly category: DeclaredCategory;
  /** Root first. */
  readonly ancestors: readonly DeclaredCategory[];
  /** Of a grant: the singular of the category of users or of roles. */
  readonly holder: string | undefined;
  /** The fields that a document can have. */
  readonly fieldNames: readonly string[];
  /** Throws a Failure with violations. */
  readonly check: Check;
}

const kindNames = ['catalog', 'database', 'table', 'view', 'role', 'grant', 'schedule'] as const;
export type KindName = (typeof kindNames)[number];

/** Changes the rows of a table, and is no definition. */
const notDeclared = new Set(['asSelect']);

const Text = Type.String({ minLength: 1 });

export function endpointOf({ category }: Pick<Kind, 'category'>, operation: string): DeclaredEndpoint {
  const endpoint = category.endpoints[operation];
  if (!endpoint) throw new Error(`${category.name} has no ${operation}`);
  return endpoint;
}

const hasRename = ({ category }: Pick<Kind, 'category'>): boolean => category.endpoints.rename !== undefined;

function kindOf(category: DeclaredCategory): Kind {
  const ancestors = ancestorsOf(category);
  const holder = category.idField === undefined ? undefined : category.parent?.singular;
  const create = endpointOf({ category }, 'create') as unknown as Endpoint;
  const isNamed = holder === undefined;
  const declared = bodyOf(create, isNamed)?.properties ?? {};
  const fields: TProperties = { kind: Type.Literal(category.singular) };
  for (const each of ancestors) {
    const below = [...ancestors, category].find(({ parent }) => parent?.name === each.name);
    fields[each.singular] = below?.parentDefault === undefined ? Text : Type.Optional(Text);
  }
  for (const [name, schema] of Object.entries(declared))
    if (!notDeclared.has(name) && (isNamed || name !== category.idField)) fields[name] = schema;
  if (hasRename({ category })) fields.renamedFrom = Type.Optional(Text);
  if (category.name === columnsApi.parent.name) fields.columns = Type.Optional(Columns as TSchema) as TSchema;
  if (isNamed) fields.name = Text;
  return {
    name: category.singular,
    category,
    ancestors,
    holder,
    fieldNames: Object.keys(fields),
    check: compileCheck(strictObject(fields), 'body'),
  };
}

const Columns = Type.Array(strictObject({ ...ColumnBody.properties, renamedFrom: Type.Optional(Text) }), {
  minItems: 1,
  maxItems: columnsMax,
});

/** The fields of a column in a document. */
export const columnFieldNames = [...Object.keys(ColumnBody.properties), 'renamedFrom'];

let known: readonly Kind[] | undefined;

/** In the order in which objects of them are created. */
export function kinds(): readonly Kind[] {
  known ??= kindNames.flatMap((name) =>
    categoriesApi.filter(({ singular }) => singular === name).map((category) => kindOf(category)),
  );
  return known;
}

export const knownKindNames: readonly string[] = kindNames;

export const isOfKind = ({ kind }: { readonly kind: Kind }, name: KindName): boolean => kind.name === name;

export function kindNamed(name: KindName): Kind {
  const kind = kinds().find((each) => each.name === name);
  if (!kind) throw new Error(`there is no kind ${name}`);
  return kind;
}

/** Of kinds of one name, the one whose parent the document names; undefined if none is. */
export function kindFor(name: unknown, fields: Fields): Kind | undefined {
  const named = kinds().filter((kind) => kind.name === name);
  if (named.length < 2) return named[0];
  return named.find(({ holder }) => holder !== undefined && fields[holder] !== undefined);
}

/** Of an ancestor that a document leaves out. */
export function parentDefaultOf({ ancestors, category }: Kind, ancestor: DeclaredCategory): string | undefined {
  return [...ancestors, category].find(({ parent }) => parent?.name === ancestor.name)?.parentDefault;
}
