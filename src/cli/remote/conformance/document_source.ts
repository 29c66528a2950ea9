// Reads an OpenAPI document from a file, a URL or the standard input, bounded in bytes and time, as JSON or YAML, with the lines of its parts.
import { createReadStream } from 'node:fs';
import { isMap, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import type { Path } from '../../../conformance/document/nodes.ts';
import { isOpenApi } from '../../../conformance/document/openapi.ts';
import { CommandError } from '../exit_codes.ts';
import { unreadable } from '../field_options.ts';

export interface DocumentSource {
  readonly value: unknown;
  /** Of a part, from 1. Undefined: not known, such as in a large JSON document. */
  lineOf(path: Path): { readonly line: number; readonly column: number } | undefined;
}

const documentBytesMax = 32 * 1024 * 1024;
const documentTimeoutMs = 30_000;
/** JSON is read by the parser of YAML a second time for its lines, which takes long for more. */
const jsonLinesBytesMax = 2 * 1024 * 1024;

/** @param source a path, an http or https URL, or `-`. Throws CommandError. */
export async function readDocument(source: string, signal: AbortSignal): Promise<DocumentSource> {
  const text = await textOf(source, signal);
  const document = parsed(source, text);
  if (!isOpenApi(document.value))
    throw new CommandError(
      'usage',
      `${source} is not an OpenAPI document: it has no "openapi": "3..." and no "swagger": "2.0" at its top`,
    );
  return document;
}

async function textOf(source: string, signal: AbortSignal): Promise<string> {
  const limit = AbortSignal.timeout(documentTimeoutMs);
  const either = AbortSignal.any([signal, limit]);
  try {
    if (/^https?:\/\//i.test(source)) return await bounded(source, await fetched(source, either));
    const input = source === '-' ? process.stdin : createReadStream(source, { signal: either });
    return await bounded(source, input as AsyncIterable<Uint8Array>);
  } catch (error) {
    if (error instanceof CommandError || signal.aborted) throw error;
    if (limit.aborted)
      throw new CommandError('unavailable', `${source} was not read within ${documentTimeoutMs / 1000} s; try again`);
    const { code } = error as NodeJS.ErrnoException;
    if (code !== undefined) throw unreadable(source, error);
    const cause = (error as Error).cause as NodeJS.ErrnoException | undefined;
    const reason = cause?.code ?? cause?.message ?? (error as Error).message;
    throw new CommandError('unavailable', `${source} cannot be reached (${reason}); check the URL`, { cause: error });
  }
}

async function fetched(url: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
  const accept = 'application/json, application/yaml;q=0.9, */*;q=0.5';
  const response = await fetch(url, { signal, headers: { accept } });
  if (!response.ok || !response.body) {
    await response.body?.cancel();
    const advice =
      response.status === 401 || response.status === 403 ? '; download it and give the file' : '; check the URL';
    throw new CommandError('failed', `${url} answered ${response.status}${advice}`);
  }
  return response.body;
}

async function bounded(source: string, chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    if (bytes > documentBytesMax)
      throw new CommandError(
        'usage',
        `${source} is larger than ${documentBytesMax / 1024 ** 2} MiB, the most that is read`,
      );
    parts.push(chunk);
  }
  return Buffer.concat(parts)
    .toString()
    .replace(/^\uFEFF/, '');
}

function parsed(source: string, text: string): DocumentSource {
  if (/^\s*\{/.test(text)) {
    try {
      const value: unknown = JSON.parse(text);
      const isSmall = text.length <= jsonLinesBytesMax;
      let lines: DocumentSource['lineOf'] | undefined;
      return {
        value,
        lineOf: (path) => {
          if (isSmall) lines ??= parsedYaml(source, text).lineOf;
          return lines?.(path);
        },
      };
    } catch {
      // YAML may begin with a brace too; otherwise its parser reports where the error is.
    }
  }
  return parsedYaml(source, text);
}

function parsedYaml(source: string, text: string): DocumentSource {
  const counter = new LineCounter();
  try {
    const document = parseDocument(text, { lineCounter: counter, merge: true });
    const [error] = document.errors;
    if (error) throw error;
    return {
      value: document.toJS() as unknown,
      lineOf(path) {
        const offset = offsetOf(document.contents, path);
        if (offset === undefined) return undefined;
        const { line, col: column } = counter.linePos(offset);
        return { line, column };
      },
    };
  } catch (error) {
    // Nested deeper than the stack, or with aliases that multiply.
    const message = error instanceof Error ? error.message.split('\n')[0]?.replace(/:$/, '') : String(error);
    throw new CommandError('usage', `${source} is neither JSON nor YAML: ${message}; give an OpenAPI document`, {
      cause: error,
    });
  }
}

/** Where the key of the last part of a path is, or its element; of the nearest part above, if aliases hide it. */
function offsetOf(contents: unknown, path: Path): number | undefined {
  let offset: number | undefined;
  let node: unknown = contents;
  for (const part of path) {
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => String((key as { value?: unknown } | null)?.value) === String(part));
      if (!pair) return offset;
      offset = (pair.key as Node).range?.[0] ?? offset;
      node = pair.value;
    } else if (isSeq(node)) {
      node = node.items[Number(part)];
      offset = (node as Node | undefined)?.range?.[0] ?? offset;
    } else return offset;
  }
  return offset ?? 0;
}
