// Parses a body: bytes → declared, checked fields (rest-standard A5, B2). Runs on the main thread for small bodies and in a worker thread
// for large ones (body_thread.ts), with the same result.
import { escapePointer } from '../../model/values/json_pointer.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import { parseKnownJson, parseRequestJson } from '../../standard/json/parse_json.ts';
import { positionAt } from '../../standard/json/syntax_errors.ts';
import { requireMediaType } from '../../standard/media.ts';
import type { Check } from '../../standard/parameters.ts';

export interface BodyForm {
  /** The field that receives a body that is not JSON. */
  readonly textField: string | undefined;
  readonly mediaTypes: readonly string[];
  readonly valuesMax: number;
  /** Whether an empty object is refused. */
  readonly required: boolean;
}

type Fields = Record<string, unknown>;

export interface CheckedBody {
  readonly fields: Fields;
  /** Whether it has numbers that a double cannot represent. */
  readonly wideNumbers: boolean;
}

/** The field that receives the text of a body that is not JSON. Throws UNSUPPORTED_MEDIA_TYPE. */
export function textFieldOf(
  headers: { readonly 'content-type'?: string | undefined; readonly 'content-encoding'?: string | undefined },
  mediaTypes: readonly string[],
  textFields: Readonly<Record<string, string>> | undefined,
): string | undefined {
  const type = requireMediaType(headers['content-type'], mediaTypes);
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new Failure('UNSUPPORTED_MEDIA_TYPE', 'Content-Encoding is not supported; send the content without it');
  }
  return textFields?.[type];
}

/** Of a request without content, whose media type is not checked: the field that it would have given. */
export function textFieldOfEmpty(
  contentType: string | undefined,
  textFields: Readonly<Record<string, string>> | undefined,
): string | undefined {
  const type = contentType?.split(';')[0]?.trim().toLowerCase() ?? '';
  return textFields && Object.hasOwn(textFields, type) ? textFields[type] : undefined;
}

/** Throws UNSUPPORTED_MEDIA_TYPE, MALFORMED_JSON, BODY_TOO_LARGE, EMPTY_BODY, INVALID_PARAMETER, UNKNOWN_FIELD. */
export function checkedBody(bytes: Uint8Array, form: BodyForm, check: Check | undefined): CheckedBody {
  const body = bytes.length === 0 ? { fields: {}, wideNumbers: false } : decoded(bytes, form);
  if (form.required && Object.keys(body.fields).length === 0)
    throw new Failure(
      'EMPTY_BODY',
      form.textField === undefined
        ? 'the body must be a JSON object with at least one field'
        : `the body is empty: with this Content-Type it must be the text of the field \`${form.textField}\``,
    );
  check?.(body.fields);
  return body;
}

/** The fields of a body that a thread has checked: the values cannot be transferred, so the body is parsed again. */
export function fieldsOf(bytes: Uint8Array, textField: string | undefined, wideNumbers: boolean): Fields {
  const text = utf8.decode(bytes);
  return textField === undefined ? (parseKnownJson(text, wideNumbers) as Fields) : { [textField]: text };
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function decoded(bytes: Uint8Array, { textField, mediaTypes, valuesMax }: BodyForm): CheckedBody {
  const text = decodeText(bytes);
  if (textField !== undefined) return { fields: { [textField]: text }, wideNumbers: false };
  if (!/^[\t\n\r ]*[{["\-0-9tfn]/.test(text)) {
    throw new Failure('UNSUPPORTED_MEDIA_TYPE', 'the content is not JSON, although its Content-Type is', {
      supported: mediaTypes,
    });
  }
  const { value, wideNumbers } = parseRequestJson(text, valuesMax);
  if (typeof value !== 'object' || value === null || Array.isArray(value) || JSON.isRawJSON(value)) {
    const violations = [{ pointer: '', rule: 'type', message: 'must be an object' }];
    throw new Failure('INVALID_PARAMETER', 'the body must be a JSON object', { violations });
  }
  // In valid UTF-8, only an escape can produce a lone surrogate. Stored or forwarded, it would become another character.
  if (/\\u[dD][89a-fA-F]/.test(text)) requireWellFormed(value);
  return { fields: value as Fields, wideNumbers };
}

/** Throws INVALID_PARAMETER for the first string with a lone surrogate. */
function requireWellFormed(value: unknown): void {
  const pointer = illFormedIn(value);
  if (pointer === undefined) return;
  const message = 'is not well-formed Unicode: it contains a lone surrogate';
  throw invalidParameter(pointer, 'unicode', message, `${pointer || 'the body'} ${message}`);
}

function illFormedIn(value: unknown): string | undefined {
  if (typeof value === 'string') return value.isWellFormed() ? undefined : '';
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return undefined;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const pointer = illFormedIn(value[i]);
      if (pointer !== undefined) return `/${i}${pointer}`;
    }
    return undefined;
  }
  for (const name in value) {
    if (!name.isWellFormed()) return '';
    const pointer = illFormedIn((value as Fields)[name]);
    if (pointer !== undefined) return `/${escapePointer(name)}${pointer}`;
  }
  return undefined;
}

function decodeText(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    const text = new TextDecoder().decode(bytes);
    const { line, column } = positionAt(text, text.indexOf('\ufffd'));
    throw new Failure('MALFORMED_JSON', `the body is not UTF-8 at line ${line}, column ${column}`, { line, column });
  }
}
