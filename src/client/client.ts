// The client: categories and endpoints as functions, made from the table of operations when they are first used. Typed by types.ts.

import { snakeCase } from '../standard/camel_case.ts';
import { type DownloadOptions, download } from './download.ts';
import { List, type Page } from './list.ts';
import { type Category, type Operation, operationNamed } from './operation.ts';
import { topCategories, waitSecondsDefault } from './operations.ts';
import { Query, type QueryOptions, type Row } from './query.ts';
import { randomId } from './random_id.ts';
import { Submitted, Task, type TaskRecord } from './task.ts';
import { type Answer, type ClientOptions, type Outgoing, type Sender, Transport } from './transport.ts';
import type { CallOptions, CategoryClients, CreateOptions } from './types.ts';
import { type UploadOptions, type UploadRecord, type UploadSource, upload } from './upload.ts';

export interface Client extends CategoryClients {
  /** Runs one SQL statement when its rows or its summary are first asked for. `R`: the type of a row, which is not checked. */
  query<R = Row>(sql: string, options?: QueryOptions): Query<R>;
  /** A task by its id, to wait for it or to cancel it. */
  task<R = unknown>(taskId: string, options?: Pick<CallOptions, 'signal'>): Promise<Task<R>>;
  /**
   * Sends a file in parts and resolves when the server has all of it; after a lost connection it continues where the server has the file.
   * The source of a load is the `uploadId` of its record.
   */
  upload(source: UploadSource, options?: UploadOptions): Promise<UploadRecord>;
  /** The bytes of a file by its link, from the result of a query, an export or a load; continued after a lost connection. */
  download(link: string, options?: DownloadOptions): ReadableStream<Uint8Array>;
}

const version = 'v2';

type Fields = Readonly<Record<string, unknown>>;
type Options = CallOptions & CreateOptions;

export const createClient = (options: ClientOptions): Client => clientOver(new Transport(options));

export function clientOver(transport: Sender): Client {
  const base = `/api/${version}`;
  const client = {
    ...members(transport, topCategories, base),
    // Without a catalog in the path they are those of `default`.
    ...members(transport, { databases: topCategories.catalogs?.children?.databases as Category }, base),
    query: (sql: string, given: QueryOptions = {}) => new Query(transport, sql, given),
    task: async (taskId: string, { signal }: CallOptions = {}) => {
      const path = `${base}/tasks/${encodeURIComponent(taskId)}`;
      const { result } = await transport.send({ method: 'GET', path, isRead: true, signal });
      return new Task(transport, result as unknown as TaskRecord);
    },
    upload: (source: UploadSource, given: UploadOptions = {}) => upload(transport, `${base}/uploads`, source, given),
    download: (link: string, given: DownloadOptions = {}) => download(transport, link, given),
  };
  // The compiler cannot follow the table of operations; tests/client compares it with the declarations.
  return client as unknown as Client;
}

type Members = Readonly<Record<string, unknown>>;

const members = (transport: Sender, categories: Readonly<Record<string, Category>>, base: string): Members =>
  Object.fromEntries(
    Object.entries(categories).map(([name, category]) => [name, collection(transport, name, category, base)]),
  );

function collection(
  transport: Sender,
  category: string,
  { collection, object, children = {} }: Category,
  base: string,
) {
  const path = `${base}/${snakeCase(category)}`;
  const objectOf = (name: string): Members => {
    const own = `${path}/${encodeURIComponent(name)}`;
    return { ...calls(transport, category, object, own), ...members(transport, children, own) };
  };
  return Object.assign(objectOf, calls(transport, category, collection, path));
}

const calls = (transport: Sender, category: string, operations: Category['object'], path: string): Members =>
  Object.fromEntries(
    Object.entries(operations).map(([name, declared]) => [
      name,
      callOf(transport, category, { ...operationNamed(name), ...declared }, path),
    ]),
  );

function callOf(transport: Sender, category: string, operation: Operation, base: string) {
  const { method, action, query, paged, accepts, items = category } = operation;
  const path = action === undefined ? base : `${base}/${action}`;
  const send = (given: Fields = {}, options: Options = {}): Promise<Answer> =>
    transport.send(requestOf(operation, path, given, options));
  if (paged) {
    return (given: Fields = {}, options?: Options) =>
      new List(async (pageToken): Promise<Page<unknown>> => {
        const { result } = await send(pageToken === undefined ? given : { ...given, pageToken }, options);
        const nextPageToken = result.nextPageToken as string | undefined;
        return { items: result[items] as readonly unknown[], nextPageToken };
      });
  }
  const call = (given?: Fields, options?: Options) => {
    const answer = send(given, options);
    return accepts ? new Submitted(transport, answer) : answer.then(({ result }) => result);
  };
  const hasFields = query || method === 'POST' || method === 'PATCH';
  return hasFields ? call : (options?: Options) => call({}, options);
}

function requestOf(operation: Operation, path: string, given: Fields, options: Options): Outgoing {
  const { method, isRead = false, action, accepts } = operation;
  const hasBody = method === 'POST' || method === 'PATCH';
  const isCreate = method === 'POST' && action === undefined;
  const { idempotencyKey = isRead ? false : randomId() } = options;
  return {
    method: isCreate && options.ifExists === 'return' ? 'PUT' : method,
    path: hasBody ? path : path + queryOf(given),
    ...(hasBody ? { body: given } : {}),
    isRead,
    idempotencyKey: idempotencyKey === false ? undefined : idempotencyKey,
    ifMatch: options.ifMatch,
    signal: options.signal,
    timeoutMs: options.timeoutMs,
    waitMs: waitMsOf(given, accepts),
  };
}

/** Where a call may become a task, the server waits for its end first, by default too. */
const waitMsOf = ({ waitSeconds }: Fields, accepts = false): number =>
  Number(waitSeconds ?? (accepts ? waitSecondsDefault : 0)) * 1000;

function queryOf(fields: Fields): string {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return given.length > 0 ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : '';
}
