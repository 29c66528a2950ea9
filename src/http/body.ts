// Bodies of requests: read whole, bounded in bytes and time, then as the declared media type says (rest-standard A4, B2).
import type { IncomingMessage } from 'node:http';
import { Failure } from '../standard/failure.ts';
import { parseRequestJson } from '../standard/json.ts';
import { requireMediaType } from '../standard/media.ts';
import { escapePointer, type Parameters } from '../standard/parameters.ts';

/** Whether the request says that it has a body. */
export function hasBody(incoming: IncomingMessage): boolean {
  const length = incoming.headers['content-length'];
  return incoming.headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

/** Throws BODY_TOO_LARGE as soon as it is known, REQUEST_TIMEOUT or MALFORMED_HTTP where the rest does not come. */
export function readBytes(incoming: IncomingMessage, bytesMax: number): Promise<Buffer> {
  const tooLarge = () =>
    new Failure('BODY_TOO_LARGE', `the body of this request has at most ${bytesMax} bytes`, { bytesMax });
  if (Number(incoming.headers['content-length'] ?? 0) > bytesMax) return Promise.reject(tooLarge());
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const done = (error?: Failure) => {
      incoming.removeAllListeners('data');
      if (error) reject(error);
    };
    incoming.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > bytesMax) {
        incoming.pause();
        done(tooLarge());
      } else chunks.push(chunk);
    });
    incoming.once('end', () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
    incoming.once('error', (cause) => done(new Failure('MALFORMED_HTTP', 'the body broke off', {}, { cause })));
    incoming.once('close', () => {
      // It comes after every body; a failure, with its stack, is made only where the end did not come.
      if (!incoming.readableEnded) done(new Failure('MALFORMED_HTTP', 'the body broke off'));
    });
  });
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

export interface BodyForm {
  /** Media types besides JSON, each with the field that takes the text. */
  readonly textFields: Readonly<Record<string, string>> | undefined;
  readonly valuesMax: number;
}

/**
 * The body as an object of declared fields, not yet checked. Throws UNSUPPORTED_MEDIA_TYPE, MALFORMED_JSON, EMPTY_BODY,
 * INVALID_PARAMETER.
 */
export function decodeBody(
  bytes: Buffer,
  headers: IncomingMessage['headers'],
  parameters: Parameters,
  { textFields, valuesMax }: BodyForm,
): Record<string, unknown> {
  const type = requireMediaType(headers['content-type'], parameters.mediaTypes);
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new Failure('UNSUPPORTED_MEDIA_TYPE', 'Content-Encoding is not offered; send the content as it is');
  }
  const text = decodeText(bytes);
  const field = textFields?.[type];
  if (field !== undefined) return { [field]: text };
  if (!/^[\t\n\r ]*[{["\-0-9tfn]/.test(text)) {
    throw new Failure('UNSUPPORTED_MEDIA_TYPE', 'the content is not JSON, though its Content-Type says so', {
      supported: parameters.mediaTypes,
    });
  }
  const value = parseRequestJson(text, valuesMax);
  if (typeof value !== 'object' || value === null || Array.isArray(value) || JSON.isRawJSON(value)) {
    const violations = [{ pointer: '', rule: 'type', message: 'must be an object' }];
    throw new Failure('INVALID_PARAMETER', 'the body must be a JSON object', { violations });
  }
  // Only an escape can bring a lone surrogate into valid UTF-8. Stored or sent on, it would become another character.
  if (/\\u[dD][89a-fA-F]/.test(text)) requireWellFormed(value, '');
  return value as Record<string, unknown>;
}

function requireWellFormed(value: unknown, pointer: string): void {
  const sound = typeof value !== 'string' || value.isWellFormed();
  if (typeof value === 'object' && value !== null) {
    for (const [key, inner] of Object.entries(value)) {
      requireWellFormed(key, pointer);
      requireWellFormed(inner, `${pointer}/${escapePointer(key)}`);
    }
  }
  if (sound) return;
  const message = 'is not well-formed Unicode: it has half of a surrogate pair';
  throw new Failure('INVALID_PARAMETER', `${pointer || 'the body'} ${message}`, {
    violations: [{ pointer, rule: 'unicode', message }],
  });
}

function decodeText(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch {
    const valid = bytes.toString('utf8').indexOf('\ufffd');
    const before = bytes.toString('utf8').slice(0, valid);
    const line = before.split('\n').length;
    const column = valid - before.lastIndexOf('\n');
    throw new Failure('MALFORMED_JSON', `the body is not UTF-8 at line ${line}, column ${column}`, { line, column });
  }
}
