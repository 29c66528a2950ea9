// /files/{id} (rest-standard B9): uploads and downloads of raw bytes by signed links. An interrupted upload is resumed where it broke
// off; a download supports Range. Bytes stream between the socket and the disk. See files/ for quota, expiry and content.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { AuditTrail } from '../access/audit/audit_log.ts';
import type { RateLimits } from '../access/limits/rate_limits.ts';
import type { LinkMode } from '../files/file_links.ts';
import type { StoredFile } from '../files/file_rows.ts';
import type { FileStore } from '../files/file_store.ts';
import { fileNotFound } from '../files/parts.ts';
import type { Actor } from '../model/principal.ts';
import type { ApiResponse } from '../standard/envelope.ts';
import { Failure } from '../standard/failure.ts';
import { hasBody } from './bodies/body.ts';
import { conditionOf, isRangeOfSame } from './conditions.ts';
import type { RequestForwarding } from './forwarding/request_forwarding.ts';
import { type ByteRange, contentDigestOf, contentRangeOf, invalidHeader, rangeOf } from './ranges.ts';
import { failedAuthenticationCost } from './request_authentication.ts';
import { invalidRequestId, requestIdOf } from './request_headers.ts';
import { systemEndpointCost } from './request_pipeline.ts';
import type { CommonHeaders } from './security_headers.ts';

export interface FileRequestsOptions {
  /** Absent if this server alone uses the store. */
  readonly forwarding?: Pick<RequestForwarding<never>, 'byFile' | 'received'> | undefined;
  readonly files: FileStore;
  readonly addressOf: (incoming: IncomingMessage) => string;
  readonly limits: RateLimits;
  readonly audit: Pick<AuditTrail, 'enqueue'>;
}

/** A connection without traffic for this long is closed. */
const idleMs = 60_000;
/** The maximum duration of one transfer. */
const transferMsMax = 6 * 3_600_000;
const filePath = /^\/files\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;

const contentTypes: Readonly<Record<string, string>> = {
  csv: 'text/csv; charset=utf-8',
  json: 'application/json',
  ndjson: 'application/x-ndjson',
  parquet: 'application/vnd.apache.parquet',
  arrow: 'application/vnd.apache.arrow.file',
  arrows: 'application/vnd.apache.arrow.stream',
  gz: 'application/gzip',
  zst: 'application/zstd',
};

/** Log data of a file request. It has only the path of the link: the query is a credential. */
export class FileCall {
  readonly requestId: string;
  readonly isValid: boolean;
  endpoint: 'files.read' | 'files.write' | '-' = '-';
  /** The owner of the file. */
  principal: string | undefined;

  constructor(incoming: IncomingMessage) {
    const { requestId, isValid } = requestIdOf(incoming);
    this.requestId = requestId;
    this.isValid = isValid;
  }
}

export class FileRequests {
  readonly #options: FileRequestsOptions;

  constructor(options: FileRequestsOptions) {
    this.#options = options;
  }

  /** Whether a path is a file URL. */
  static has(path: string): boolean {
    return path.startsWith('/files/');
  }

  /** Returns the response to an upload, or undefined after a download was sent. Throws a Failure to respond with. */
  async serve(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    commonHeaders: CommonHeaders,
    call: FileCall,
  ): Promise<ApiResponse | undefined> {
    if (!call.isValid) throw invalidRequestId();
    const { method } = incoming;
    const mode = method === 'PUT' ? 'write' : 'read';
    if (mode === 'read' && method !== 'GET' && method !== 'HEAD')
      throw new Failure('METHOD_NOT_ALLOWED', 'a file supports only GET, HEAD and PUT', {
        allow: ['GET', 'HEAD', 'PUT'],
      });
    call.endpoint = `files.${mode}`;
    const { path, query } = targetOf(incoming.url as string);
    const { addressOf, forwarding } = this.#options;
    const isCharged = forwarding?.received(incoming)?.isCharged ?? false;
    const file = await this.#openFile(path, { mode, query, isCharged, address: addressOf(incoming) }, call);
    const { requestId } = call;
    const response = await forwarding?.byFile(file.serverId, {
      incoming,
      outgoing,
      requestId,
      principalId: file.owner,
    });
    if (response) return response;
    if (mode === 'write') return this.#receive(file, incoming, path);
    if (file.state !== 'ready') throw fileNotFound(file.fileId);
    const headers = { ...commonHeaders, 'x-service-request-id': call.requestId };
    await this.#send(file, incoming, outgoing, headers);
    return undefined;
  }

  /** Charges the rate limits of the address and of the owner of the link, or of the address alone when the link is invalid. */
  async #openFile(path: string, { mode, query, isCharged, address }: OpenedLink, call: FileCall) {
    const { files, limits, audit } = this.#options;
    const actor = { action: call.endpoint, requestId: call.requestId, address, target: path };
    let file: StoredFile;
    try {
      const fileId = filePath.exec(path)?.[1];
      if (fileId === undefined)
        throw new Failure('API_NOT_FOUND', 'a file link consists of /files/, the file id and a signature');
      file = await files.resolveLink(fileId, mode, query);
    } catch (error) {
      if (error instanceof Failure && error.code === 'FORBIDDEN') audit.enqueue(actor, { outcome: error.code });
      limits.chargeAddress(address, failedAuthenticationCost);
      throw error;
    }
    const { owner: id, createdBy: name } = file;
    call.principal = name;
    try {
      if (!isCharged) limits.charge(id, address, systemEndpointCost);
    } catch (error) {
      if (error instanceof Failure) audit.enqueue({ ...actor, id, name }, { outcome: error.code });
      throw error;
    }
    return file;
  }

  async #receive(file: StoredFile, incoming: IncomingMessage, path: string): Promise<ApiResponse> {
    const { files, addressOf } = this.#options;
    const { headers } = incoming;
    const contentRange = contentRangeOf(headers['content-range']);
    const digest = contentDigestOf(headers['content-digest'] as string | undefined);
    if ((headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity')
      throw new Failure(
        'UNSUPPORTED_MEDIA_TYPE',
        'Content-Encoding is not supported; the bytes are stored as they are received',
      );
    const length = lengthOf(incoming);
    const actor: Actor = {
      id: file.owner,
      name: file.createdBy,
      action: 'uploads.receive',
      address: addressOf(incoming),
      target: path,
    };
    const content = receivedChunks(incoming, idleMs, transferMsMax);
    if (contentRange === undefined)
      return receivedResponse(await files.append(file.fileId, content, { offset: 0, total: length, digest }, actor));
    const { range, total } = contentRange;
    if (range === undefined) {
      if (length !== 0) throw new Failure('BODY_NOT_ALLOWED', 'a request for the upload offset must have no body');
      if (file.state === 'ready' || total === undefined || total !== file.receivedBytes) return receivedResponse(file);
      // The content is complete; only its end or the response was lost.
      const { receivedBytes: offset } = file;
      return receivedResponse(await files.append(file.fileId, content, { offset, end: offset, total }, actor));
    }
    const { start: offset, end } = range;
    if (length !== undefined && length !== end - offset)
      throw invalidHeader('Content-Range', 'must have the length of the body');
    return receivedResponse(await files.append(file.fileId, content, { offset, end, total, digest }, actor));
  }

  async #send(
    file: StoredFile,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    commonHeaders: CommonHeaders,
  ): Promise<void> {
    const { files } = this.#options;
    const size = file.bytes ?? 0;
    const { headers } = incoming;
    const etag = `"${file.sha256 ?? file.fileId}"`;
    const own: Record<string, string | number> = {
      ...commonHeaders,
      ETag: etag,
      'Accept-Ranges': 'bytes',
      'Last-Modified': new Date(file.updatedAt).toUTCString(),
      // Anyone with the link may read the file, but shared caches must not store it.
      'Cache-Control': 'private, no-cache',
    };
    const validators = { etag, modifiedAt: file.updatedAt };
    const condition = conditionOf(headers, validators);
    if (condition !== 'met') {
      outgoing.writeHead(condition, condition === 412 ? { ...own, 'Content-Length': 0 } : own).end();
      return;
    }
    const isSame = isRangeOfSame(headers['if-range'] as string | undefined, validators);
    const range = isSame && incoming.method === 'GET' ? rangeOf(headers.range, size) : undefined;
    if (range === 'unsatisfied') {
      outgoing.writeHead(416, { ...own, 'Content-Range': `bytes */${size}`, 'Content-Length': 0 }).end();
      return;
    }
    Object.assign(own, headersOfContent(file, size, range));
    const { start, end } = range ?? { start: 0, end: size };
    if (incoming.method === 'HEAD' || start === end) {
      outgoing.writeHead(range ? 206 : 200, own).end();
      return;
    }
    const { stream: content } = await files.open(file, { start, end });
    outgoing.writeHead(range ? 206 : 200, own);
    const idle = setTimeout(() => outgoing.destroy(), idleMs);
    const deadline = setTimeout(() => outgoing.destroy(), transferMsMax);
    outgoing.on('drain', () => idle.refresh());
    try {
      await pipeline(content, outgoing);
    } finally {
      clearTimeout(idle);
      clearTimeout(deadline);
    }
  }
}

interface OpenedLink {
  readonly mode: LinkMode;
  readonly query: URLSearchParams;
  /** Whether the server that forwarded the request has charged it. */
  readonly isCharged: boolean;
  readonly address: string;
}

function targetOf(target: string): { readonly path: string; readonly query: URLSearchParams } {
  const mark = target.indexOf('?');
  const path = mark < 0 ? target : target.slice(0, mark);
  return { path, query: new URLSearchParams(mark < 0 ? '' : target.slice(mark + 1)) };
}

/** Undefined for chunked bodies. */
function lengthOf(incoming: IncomingMessage): number | undefined {
  if (!hasBody(incoming)) return 0;
  const length = incoming.headers['content-length'];
  return length === undefined || incoming.headers['transfer-encoding'] !== undefined ? undefined : Number(length);
}

/** The body as it arrives; the connection stays open. Throws REQUEST_TIMEOUT, and MALFORMED_HTTP when the client disconnects. */
async function* receivedChunks(
  incoming: IncomingMessage,
  idleMs: number,
  deadlineMs: number,
): AsyncGenerator<Uint8Array> {
  const chunks = incoming.iterator({ destroyOnReturn: false });
  let fail: (failure: Failure) => void = () => undefined;
  const onTimeout = () =>
    fail(
      new Failure(
        'REQUEST_TIMEOUT',
        'the content was not received within the time limit; the bytes received so far are stored',
      ),
    );
  const idle = setTimeout(onTimeout, idleMs);
  const deadline = setTimeout(onTimeout, deadlineMs);
  try {
    for (;;) {
      const { promise, resolve, reject } = Promise.withResolvers<IteratorResult<Uint8Array>>();
      fail = reject;
      chunks
        .next()
        .then(resolve, (cause: unknown) =>
          reject(
            new Failure(
              'MALFORMED_HTTP',
              'the connection was closed before the body was complete; the bytes received so far are stored',
              {},
              { cause },
            ),
          ),
        );
      const { done, value } = await promise;
      if (done) return;
      idle.refresh();
      yield value;
    }
  } finally {
    clearTimeout(idle);
    clearTimeout(deadline);
  }
}

function receivedResponse({ fileId, state, bytes, receivedBytes, sha256 }: StoredFile): ApiResponse {
  const body = { code: '0', message: 'OK', result: { uploadId: fileId, state, bytes, receivedBytes, sha256 } };
  return { status: 200, headers: {}, body: [JSON.stringify(body)] };
}

function headersOfContent({ name, sha256 }: StoredFile, size: number, range: ByteRange | undefined) {
  const ending = name.toLowerCase().split('.').at(-1) ?? '';
  const type = Object.hasOwn(contentTypes, ending) ? (contentTypes[ending] as string) : 'application/octet-stream';
  const plain = name.replace(/[^\x20-\x7e]|["\\%/]/g, '_');
  const exact = encodeURIComponent(name.toWellFormed()).replace(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);
  return {
    'Content-Type': type,
    'Content-Disposition': `attachment; filename="${plain}"; filename*=UTF-8''${exact}`,
    // Uploaded content must not run as a page of this server.
    'Content-Security-Policy': "default-src 'none'; sandbox",
    'Content-Length': range ? range.end - range.start : size,
    ...(range ? { 'Content-Range': `bytes ${range.start}-${range.end - 1}/${size}` } : {}),
    ...(sha256 === null ? {} : { 'Repr-Digest': `sha-256=:${Buffer.from(sha256, 'hex').toString('base64')}:` }),
  };
}
