// Reads the body of a request into checked fields: receives it, charges its bytes to the rate limit, and parses and checks it on the main
// thread, or in a worker thread when it is large. See body.ts, body_text.ts and body_threads.ts.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ParsedRows } from '../../query/rows/row_source.ts';
import type { Endpoint } from '../../standard/endpoint.ts';
import { bodyOf, type Parameters } from '../../standard/parameters.ts';
import { hasBody, type ReceivedBody, readBody } from './body.ts';
import type { BodyBudget } from './body_budget.ts';
import { type BodyForm, checkedBody, fieldsOf, textFieldOf, textFieldOfEmpty } from './body_text.ts';
import { type BodyThreads, disconnected } from './body_threads.ts';

export interface BodyLimits {
  readonly requestBodyBytesMax: number;
  readonly requestBodyValuesMax: number;
  readonly rowsBodyValuesMax: number;
}

export interface BodiesOptions {
  readonly limits: BodyLimits;
  readonly threads: BodyThreads;
  readonly budget: BodyBudget;
}

export interface BodyRequest {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly endpoint: Endpoint;
  readonly parameters: Parameters;
  readonly hasNameInPath: boolean;
  readonly principalId: string;
  /** Whether a digest of the rows is needed. */
  readonly digested: boolean;
  /** Gets the bytes of the body. */
  readonly keep?: ((bytes: Uint8Array) => void) | undefined;
  /** Throws RATE_LIMITED. */
  readonly charge: (cost: number) => void;
}

type Fields = Record<string, unknown>;

/** A body adds 1 to the cost for each block of this many bytes. */
const bytesPerCost = 64 * 1024;
const emptyBody = Buffer.alloc(0);

export class Bodies {
  readonly #options: BodiesOptions;
  /** Schemas as JSON for the worker threads, with and without the name. */
  readonly #schemas = new Map<Endpoint, readonly [string, string]>();

  constructor(options: BodiesOptions) {
    this.#options = options;
  }

  /** Receives the bytes. Returns a function that parses and checks them, once; it returns rows as a `RowSource` in their field. */
  async receive(request: BodyRequest): Promise<() => Promise<Fields>> {
    let received = await this.#receive(request);
    const { outgoing } = request;
    if (!received?.isLarge) return () => this.#read(received, request);
    // It may wait for minutes until it is parsed.
    outgoing.once('close', () => {
      received = undefined;
    });
    return () => (outgoing.destroyed ? Promise.reject(disconnected()) : this.#read(received, request));
  }

  async #read(received: ReceivedBody | undefined, request: BodyRequest): Promise<Fields> {
    const { incoming, endpoint, parameters, hasNameInPath } = request;
    if (received) request.keep?.(received.isLarge ? Buffer.concat(received.blocks, received.bytes) : received.content);
    const { requestBodyValuesMax, rowsBodyValuesMax } = this.#options.limits;
    const { mediaTypes } = parameters;
    const form: BodyForm = {
      mediaTypes,
      textField: received?.bytes
        ? textFieldOf(incoming.headers, mediaTypes, endpoint.textBodies)
        : textFieldOfEmpty(incoming.headers['content-type'], endpoint.textBodies),
      valuesMax: endpoint.rowsIn === undefined ? requestBodyValuesMax : rowsBodyValuesMax,
      required: endpoint.bodyRequired ?? false,
    };
    if (received?.isLarge) return this.#readLarge(received, form, request);
    const check = hasNameInPath ? parameters.checkBodyWithoutName : parameters.checkBody;
    const { fields } = checkedBody(received?.content ?? emptyBody, form, check);
    const { rowsIn } = endpoint;
    if (rowsIn !== undefined) fields[rowsIn] = new ParsedRows(fields[rowsIn] as readonly unknown[]);
    return fields;
  }

  /** Charges the bytes before reading when Content-Length gives their number. */
  async #receive({
    incoming,
    outgoing,
    endpoint,
    principalId,
    charge,
  }: BodyRequest): Promise<ReceivedBody | undefined> {
    if (!hasBody(incoming)) return undefined;
    const { limits, budget } = this.#options;
    const bytesMax = endpoint.bodyBytesMax ?? limits.requestBodyBytesMax;
    const length = Number(incoming.headers['content-length'] ?? 0);
    const chargeBytes = (bytes: number) => {
      if (bytes >= bytesPerCost) charge(Math.floor(bytes / bytesPerCost));
    };
    if (length <= bytesMax) chargeBytes(length);
    const received = await readBody(incoming, bytesMax, (bytes) => {
      outgoing.once('close', budget.take(principalId, bytes));
    });
    chargeBytes(received.bytes - length);
    return received;
  }

  async #readLarge({ blocks, bytes }: ReceivedBody, form: BodyForm, request: BodyRequest): Promise<Fields> {
    const { endpoint, hasNameInPath, outgoing, principalId, digested } = request;
    const { rowsIn } = endpoint;
    const [withName, withoutName] = this.#schemasOf(endpoint);
    const schema = hasNameInPath ? withoutName : withName;
    const work = { blocks, bytes, form, schema, rowsIn, digested };
    const { body, rows } = await this.#options.threads.read(principalId, work, outgoing);
    if ('content' in body) return fieldsOf(body.content, form.textField, body.wideNumbers);
    if (outgoing.destroyed) rows.release();
    else outgoing.once('close', () => rows.release());
    return { ...body.fields, [rowsIn as string]: rows };
  }

  #schemasOf(endpoint: Endpoint): readonly [string, string] {
    const cached = this.#schemas.get(endpoint);
    if (cached) return cached;
    const schemas = [JSON.stringify(bodyOf(endpoint, true)), JSON.stringify(bodyOf(endpoint, false))] as const;
    this.#schemas.set(endpoint, schemas);
    return schemas;
  }
}
