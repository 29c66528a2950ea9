// Bodies of creations from what the OpenAPI document says: the required fields with constants, examples, values of enums or the simplest value
// of their type; or the example of the document as a whole. The name is that of the object.
import { child, elements, fieldsOf, isObject, listOf, type Node, resolve } from '../document/nodes.ts';
import type { OpenApiDocument, Operation } from '../document/openapi.ts';
import { isOnly, type Shape, shapesOf } from '../document/shapes.ts';

type Fields = Readonly<Record<string, unknown>>;

/** The body of a creation. */
export interface CreationBody {
  of(name: string): Fields;
  /** Whether it has values that the kit took from the document: a service may refuse them a second time, as values that are unique. */
  readonly isGuessed: boolean;
}

/** A change of one field. `isGuessed`: whether the service may refuse this value. */
export interface Update {
  readonly fields: Fields;
  readonly isGuessed: boolean;
}

/** A value, or why the document does not say enough to make one. */
type Made = { readonly value: unknown } | { readonly reason: string };

const nameField = 'name';
const sampleText = 'conform';
const depthMax = 8;

/** The schema and the example of a body in JSON. */
export function jsonBody(
  document: OpenApiDocument,
  operation: Operation | undefined,
): { readonly schema: Node; readonly example: Fields } | undefined {
  const content = operation?.body?.contents.find(({ mediaType }) => mediaType === 'application/json');
  if (!content?.schema) return undefined;
  const media = child(document.root, ...content.at);
  const { example, examples } = fieldsOf(media?.value);
  const first = Object.values(fieldsOf(examples))[0];
  const { example: inSchema } = fieldsOf(resolve(document.root, content.schema)?.value);
  return { schema: content.schema, example: fieldsOf(example ?? fieldsOf(first).value ?? inSchema) };
}

/** Bodies to try one after the other: the least that the schema requires, then the example. `reason`: there is none. */
export function creationBodies(
  document: OpenApiDocument,
  operation: Operation | undefined,
): { readonly bodies: readonly CreationBody[]; readonly reason: string } {
  const body = jsonBody(document, operation);
  if (!body) return { bodies: [], reason: 'its creation has no body in JSON with a schema' };
  const { schema, example } = body;
  // The alternative that requires least.
  const [shape] = [...shapesOf(document.root, schema)].sort((a, b) => a.required.size - b.required.size);
  if (!shape?.fields.has(nameField)) return { bodies: [], reason: 'the body of its creation has no field "name"' };
  const least = requiredFields(document.root, shape, example, '', 0, new Set([nameField]));
  const bodies: CreationBody[] = [];
  if ('value' in least) {
    const others = fieldsOf(least.value);
    bodies.push({ of: (name) => ({ ...others, name }), isGuessed: Object.keys(others).length > 0 });
  }
  if (Object.keys(example).some((key) => key !== nameField && !('value' in least && key in fieldsOf(least.value))))
    bodies.push({ of: (name) => ({ ...example, name }), isGuessed: true });
  return { bodies, reason: 'reason' in least ? least.reason : '' };
}

function requiredFields(
  root: Node,
  shape: Shape,
  example: unknown,
  place: string,
  depth: number,
  omitted: ReadonlySet<string> = new Set(),
): Made {
  const fields: Record<string, unknown> = {};
  for (const name of shape.required) {
    if (omitted.has(name)) continue;
    const made = madeOf(root, shape.fields.get(name), fieldsOf(example)[name], `${place}/${name}`, depth + 1);
    if ('reason' in made) return made;
    fields[name] = made.value;
  }
  return { value: fields };
}

/** `example`: what an example of the whole has in this place. */
function madeOf(root: Node, field: Node | undefined, example: unknown, place: string, depth: number): Made {
  const schema = resolve(root, field);
  if (example !== undefined) return { value: example };
  if (!schema || depth > depthMax) return { reason: `${place} is required, and the document does not describe it` };
  const said = fieldsOf(schema.value);
  const known = [said.const, said.example, listOf(said.examples)[0], listOf(said.enum)[0], said.default];
  const found = known.find((value) => value !== undefined);
  if (found !== undefined) return { value: found };
  const shapes = [...shapesOf(root, schema)].sort((a, b) => a.required.size - b.required.size);
  const [shape] = shapes;
  if (shape && isOnly(shape, 'object') && isObject(said) && !shape.isPartlyUnknown)
    return requiredFields(root, shape, undefined, place, depth);
  const alternatives = ['oneOf', 'anyOf'].flatMap((key) => {
    const list = child(schema, key);
    return list ? elements(list) : [];
  });
  const [alternative] = alternatives;
  if (alternative && said.type === undefined) return madeOf(root, alternative, undefined, place, depth + 1);
  return simpleValue(root, schema, [...(shape?.types ?? [])], place, depth);
}

/** The simplest value of the first type. */
function simpleValue(root: Node, schema: Node, [type]: readonly string[], place: string, depth: number): Made {
  const { pattern, format, minLength, maxLength, minItems, minimum, exclusiveMinimum, maximum } = fieldsOf(
    schema.value,
  );
  if (type === 'boolean') return { value: false };
  if (type === 'null') return { value: null };
  if (type === 'integer' || type === 'number') {
    const least = typeof exclusiveMinimum === 'number' ? exclusiveMinimum + 1 : minimum;
    return { value: typeof least === 'number' ? least : Math.min(1, typeof maximum === 'number' ? maximum : 1) };
  }
  if (type === 'string') {
    if (pattern !== undefined || format !== undefined)
      return {
        reason: `${place} is required and has a ${pattern === undefined ? 'format' : 'pattern'}, but no example`,
      };
    const padded = sampleText.padEnd(typeof minLength === 'number' ? minLength : 0, sampleText);
    return { value: padded.slice(0, typeof maxLength === 'number' ? maxLength : padded.length) };
  }
  if (type === 'array') {
    if (typeof minItems !== 'number' || minItems === 0) return { value: [] };
    const made = madeOf(root, child(schema, 'items'), undefined, `${place}/0`, depth + 1);
    return 'reason' in made ? made : { value: Array.from({ length: minItems }, () => made.value) };
  }
  return { reason: `${place} is required, and the document does not say of which type it is` };
}
