// Reads the documents of a YAML file as declarations. Errors have the line and the column of the value that they are about.
import {
  type Document,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type ParsedNode,
  parseAllDocuments,
} from 'yaml';
import { nameFault } from '../../../model/names.ts';
import { parseType, TypeSyntaxError } from '../../../model/types.ts';
import { pointerSegments } from '../../../model/values/json_pointer.ts';
import { Failure, type Violation } from '../../../standard/failure.ts';
import { canonicalUri } from './canonical_uri.ts';
import type { Declaration, Fields, FileErrors, Place } from './declaration.ts';
import type { SourceFile } from './find_files.ts';
import { columnFieldNames, isOfKind, type Kind, kindFor, kinds, knownKindNames, parentDefaultOf } from './kinds.ts';
import { suggestion } from './nearest_name.ts';

type YamlDocument = Document.Parsed<ParsedNode>;
type PlaceOf = (pointer: string) => Place;

/** An alias can repeat a value this often, so that a small file cannot become a large one. */
const aliasesMax = 100;

export function yamlDeclarations({ path, text }: SourceFile, errors: FileErrors): Declaration[] {
  const lines = new LineCounter();
  const place = (offset: number): Place => {
    const { line, col } = lines.linePos(offset);
    return { file: path, line: Math.max(1, line), column: Math.max(1, col) };
  };
  const documents = parseAllDocuments(text, { lineCounter: lines, prettyErrors: false });
  if ('empty' in documents) return [];
  return documents.flatMap((document) => {
    for (const { pos, message } of document.errors) errors.add(place(pos[0]), `this is not valid YAML: ${message}`);
    if (document.errors.length > 0) return [];
    const placeOf: PlaceOf = (pointer) => place(offsetOf(document, pointer));
    const declaration = declarationIn(document, placeOf, errors);
    return declaration ? [declaration] : [];
  });
}

function declarationIn(document: YamlDocument, placeOf: PlaceOf, errors: FileErrors): Declaration | undefined {
  const fields = fieldsIn(document, placeOf, errors);
  if (!fields) return undefined;
  const kind = kindOf(fields, placeOf, errors);
  if (!kind) return undefined;
  const violations = violationsIn(kind, fields);
  for (const violation of violations) errors.add(placeOf(violation.pointer), messageOf(violation, kind));
  if (violations.length > 0) return undefined;
  return declarationOf(kind, fields, placeOf, errors);
}

function fieldsIn(document: YamlDocument, placeOf: PlaceOf, errors: FileErrors): Fields | undefined {
  try {
    const value: unknown = document.toJS({ maxAliasCount: aliasesMax });
    if (value === null) return undefined;
    if (typeof value === 'object' && !Array.isArray(value)) return value as Fields;
    errors.add(placeOf(''), 'a document must be one object with a kind, such as `kind: table`');
  } catch (error) {
    // What toJS throws for aliases: too many, or one without its anchor.
    if (!(error instanceof ReferenceError)) throw error;
    errors.add(placeOf(''), `this is not valid YAML: ${error.message}`);
  }
  return undefined;
}

function kindOf(fields: Fields, placeOf: PlaceOf, errors: FileErrors): Kind | undefined {
  const { kind } = fields;
  const found = kindFor(kind, fields);
  if (found) return found;
  if (kind === undefined) errors.add(placeOf(''), `the document has no kind; it can be: ${knownKindNames.join(', ')}`);
  else if (knownKindNames.includes(String(kind))) {
    const holders = kinds().flatMap((each) => (each.name === kind && each.holder !== undefined ? [each.holder] : []));
    errors.add(placeOf(''), `a ${String(kind)} needs one of ${holders.join(', ')}`);
  } else
    errors.add(placeOf('/kind'), `there is no kind ${JSON.stringify(kind)}${suggestion(String(kind), knownKindNames)}`);
  return undefined;
}

function violationsIn(kind: Kind, fields: Fields): readonly Violation[] {
  try {
    kind.check(fields);
    return [];
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return (error.result.violations ?? []) as readonly Violation[];
  }
}

function messageOf({ pointer, rule, message }: Violation, { name, fieldNames }: Kind): string {
  const parts = pointerSegments(pointer);
  const field = JSON.stringify(parts.join('.'));
  if (rule !== 'unknownField') return `${parts.length === 0 ? 'the document' : field} ${message}`;
  const last = parts.at(-1) ?? '';
  if (parts.length === 1) return `${field} is not a field of a ${name}${suggestion(last, fieldNames)}`;
  if (parts.length === 3 && parts[0] === 'columns')
    return `${JSON.stringify(last)} is not a field of a column${suggestion(last, columnFieldNames)}`;
  return `${field} is not a field of a ${name}`;
}

function declarationOf(kind: Kind, document: Fields, placeOf: PlaceOf, errors: FileErrors): Declaration {
  const { kind: _kind, name, renamedFrom, columns, ...rest } = document;
  const path = kind.ancestors.map((each) => String(document[each.singular] ?? parentDefaultOf(kind, each)));
  const fields: Record<string, unknown> = { ...rest };
  for (const each of kind.ancestors) delete fields[each.singular];
  const renamedColumns: Record<string, string> = {};
  if (Array.isArray(columns)) fields.columns = columns.map((column) => columnOf(column as Fields, renamedColumns));
  if (kind.holder === undefined) path.push(String(name));
  else {
    fields.on = canonicalUri(String(fields.on));
    path.push(String(fields.privilege), String(fields.on));
  }
  const declaration: Declaration = {
    kind,
    path,
    fields,
    renamedFrom: renamedFrom === undefined ? undefined : String(renamedFrom),
    renamedColumns,
    place: placeOf(''),
    placeOf,
  };
  checkValues(declaration, placeOf, errors);
  return declaration;
}

function columnOf({ renamedFrom, ...column }: Fields, renamed: Record<string, string>): Fields {
  if (renamedFrom !== undefined) renamed[String(renamedFrom)] = String(column.name);
  return column;
}

/** What the schema does not check, and the server would only find when the object is created. */
function checkValues({ kind, path, fields }: Declaration, placeOf: PlaceOf, errors: FileErrors): void {
  const fault = kind.holder === undefined ? nameFault(path.at(-1) ?? '') : undefined;
  if (fault !== undefined) errors.add(placeOf('/name'), fault);
  if (!isOfKind({ kind }, 'table')) return;
  const { columns, sql } = fields;
  if ((columns === undefined) === (sql === undefined))
    errors.add(placeOf(columns === undefined ? '' : '/sql'), 'a table has either columns or sql');
  for (const [i, { type }] of ((columns ?? []) as readonly { readonly type: string }[]).entries()) {
    try {
      parseType(type);
    } catch (error) {
      if (!(error instanceof TypeSyntaxError)) throw error;
      errors.add(placeOf(`/columns/${i}/type`), error.message);
    }
  }
}

/** Of the name of the field, or of the item; of the nearest value around it if the document does not have it. */
function offsetOf({ contents, range }: YamlDocument, pointer: string): number {
  let node: Node | null = contents;
  let offset = contents?.range?.[0] ?? range[0];
  for (const part of pointerSegments(pointer)) {
    if (isMap(node)) {
      const pair: { readonly key: unknown; readonly value: unknown } | undefined = node.items.find(
        ({ key }) => (isScalar(key) ? String(key.value) : key) === part,
      );
      if (!pair) break;
      offset = isScalar(pair.key) ? (pair.key.range?.[0] ?? offset) : offset;
      node = (pair.value as Node | null) ?? null;
    } else if (isSeq(node)) {
      node = (node.items[Number(part)] as Node | undefined) ?? null;
      offset = node?.range?.[0] ?? offset;
    } else break;
  }
  return offset;
}
