// A small service that keeps the REST standard, with boxes that are created at once, items in each box, and parcels that are created by tasks;
// and with a switch for each fault that `conform` must find. It knows nothing of Tabularium.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as textOf } from 'node:stream/consumers';

/** Each fault, and the rule that names it. */
export const faults = {
  'failures have an envelope of their own': 'envelope',
  'a list is an array': 'envelope',
  'the message of a success is "done"': 'success-code',
  'a failure has the code "0"': 'success-code',
  'a deletion has no body': 'success-body',
  'a duplicate is 409': 'status-closed',
  'a deletion is 204': 'status-closed',
  'a collection redirects to itself with a slash': 'status-closed',
  'fields are in snake_case': 'camel-case',
  'a header of its own kind': 'header-names',
  'an unknown path is 400': 'unregistered-uri',
  'a broken escape is 400': 'unregistered-uri',
  'an unknown method is 404': 'wrong-method',
  'missing credentials are 403': 'unauthenticated',
  'wrong credentials are accepted': 'unauthenticated',
  'Accept is ignored': 'not-acceptable',
  'text is read as JSON': 'media-type',
  'XML is 400': 'media-type',
  'a wrong body is 500': 'invalid-parameters',
  'an object is shown with 201': 'get',
  'POST replaces what exists': 'post',
  'POST is 200': 'post',
  'PUT of what exists fails': 'put',
  'PATCH changes nothing': 'patch',
  'DELETE of what is gone fails': 'delete',
  'DELETE does nothing': 'delete',
  'a creation has no URI': 'created-uri',
  'the URI of a creation leads nowhere': 'created-uri',
  'a task has no URI': 'task-uri',
  'the URI of a task leads nowhere': 'task-uri',
  'a running task cannot be cancelled': 'task-cancel',
  'a cancelled task is not shown': 'task-cancel',
  'a task cannot be deleted': 'task-delete',
  'a deleted task is still shown': 'task-delete',
  'a task is not deleted twice': 'task-delete',
  'objects are found by a slug of their name': 'object-names',
  'the body takes precedence': 'path-precedence',
  'below a box: a list is an array': 'envelope',
  'below a box: fields are in snake_case': 'camel-case',
  'below a box: an object is shown with 201': 'get',
  'below a box: POST replaces what exists': 'post',
  'below a box: PUT of what exists fails': 'put',
  'below a box: PATCH changes nothing': 'patch',
  'below a box: DELETE of what is gone fails': 'delete',
  'below a box: the URI of a creation leads nowhere': 'created-uri',
  'below a box: the body takes precedence': 'path-precedence',
} as const;
export type Fault = keyof typeof faults;

/** Further behaviour, for tests of the run itself. */
export type Trouble = 'deletions are refused' | 'creations are never answered';

interface Box {
  name: string;
  comment: string | null;
  /** What is below it: a service of its own with the rest of the path. */
  readonly below?: Service;
}

const belowPrefix = 'below a box: ';

interface StoredTask {
  readonly taskId: string;
  state: string;
}

export interface FaultyServer {
  readonly url: string;
  readonly token: string;
  /** The names of all objects that exist. */
  names(): string[];
  /** Resolves at the next request of this method. */
  next(method: string): Promise<void>;
  close(): Promise<void>;
}

const token = 'secret-of-the-faulty-server';
const taskMs = 20;
/** Of a task that has not ended when its cancellation is refused. */
const longTaskMs = 400;

class Answer extends Error {
  readonly status: number;
  readonly body: unknown;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}) {
    super(String(status));
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}

const topCategories: readonly string[] = ['boxes', 'parcels', 'seals'];
const slugOf = (name: string): string => name.replaceAll(/[^a-z0-9_]/gi, '-');

class Service {
  readonly #base: string;
  readonly #planted: readonly string[];
  readonly #faults: ReadonlySet<string>;
  readonly #objects: Readonly<Record<string, Map<string, Box>>>;
  readonly #tasks = new Map<string, StoredTask>();
  #taskCount = 0;

  constructor(planted: readonly string[], base = '/api/v1', categories: readonly string[] = topCategories) {
    this.#base = base;
    this.#planted = planted;
    this.#faults = new Set(planted);
    this.#objects = Object.fromEntries(categories.map((category) => [category, new Map<string, Box>()]));
    this.#objects.boxes?.set('first', this.#newBox('boxes', 'first'));
  }

  #newBox(category: string, name: string): Box {
    if (category !== 'boxes') return { name, comment: null };
    const planted = this.#planted.flatMap((fault) =>
      fault.startsWith(belowPrefix) ? [fault.slice(belowPrefix.length)] : [],
    );
    const base = `${this.#base}/boxes/${encodeURIComponent(this.#segment(name))}`;
    return { name, comment: null, below: new Service(planted, base, ['items']) };
  }

  names(): string[] {
    const all = Object.values(this.#objects).flatMap((objects) => [...objects.values()]);
    return all.flatMap(({ name, below }) => [name, ...(below?.names() ?? [])]);
  }

  #has(fault: Fault | Trouble): boolean {
    return this.#faults.has(fault);
  }

  fail(status: number, code: string, message: string, headers: Readonly<Record<string, string>> = {}): never {
    if (this.#has('failures have an envelope of their own')) throw new Answer(status, { error: message }, headers);
    throw new Answer(
      status,
      { code: this.#has('a failure has the code "0"') ? '0' : code, message, result: {} },
      headers,
    );
  }

  succeed(status: number, result: unknown): never {
    throw new Answer(status, {
      code: '0',
      message: this.#has('the message of a success is "done"') ? 'done' : 'OK',
      result,
    });
  }

  async handle(request: IncomingMessage): Promise<void> {
    const { url = '' } = request;
    if (url === '/openapi.json') throw new Answer(200, document);
    const parts = this.#segmentsOf(url);
    this.#authenticate(request);
    if (!/application\/json|\*\/\*/.test(request.headers.accept ?? '*/*') && !this.#has('Accept is ignored'))
      this.fail(406, 'NOT_ACCEPTABLE', 'The response is JSON.');
    await this.#handlePath(parts, request);
  }

  async #handlePath(parts: readonly string[], request: IncomingMessage): Promise<void> {
    const { method = '' } = request;
    const [category = '', name, action] = parts;
    if (category === 'boxes' && action === 'items') return this.#handleBelow(parts, request);
    if (category === 'tasks' && name !== undefined) this.#task(method, name, action);
    const objects = this.#objects[category];
    if (!objects || action !== undefined) this.#unknown();
    if (method === 'GET')
      return name === undefined ? this.#list(category, objects) : this.#show(category, objects, name);
    if (method === 'DELETE' && name !== undefined) return this.#delete(category, objects, name);
    if (method === 'PATCH' && name !== undefined)
      return this.#patch(category, objects, name, await this.#bodyOf(request));
    const isCreation = method === 'PUT' || (method === 'POST' && (name === undefined || name === 'create'));
    if (!isCreation)
      this.fail(
        this.#has('an unknown method is 404') ? 404 : 405,
        'METHOD_NOT_ALLOWED',
        'The path has no such method.',
        { allow: 'GET, POST, PUT' },
      );
    const body = await this.#bodyOf(request);
    if (category === 'items') this.#requireItem(body);
    this.#create({ method, category, objects }, name === 'create' ? undefined : name, body);
  }

  /** As the document says: what has no example is any value that fits. */
  #requireItem({ size, kind, code, origin, tags }: Readonly<Record<string, unknown>>): void {
    const isValid =
      Number.isInteger(size) &&
      Number(size) >= 3 &&
      ['round', 'square'].includes(String(kind)) &&
      /^[A-Z]{2}\d$/.test(String(code)) &&
      typeof (origin as { readonly city?: unknown } | undefined)?.city === 'string' &&
      Array.isArray(tags);
    if (!isValid) this.fail(400, 'INVALID', 'The body is wrong.');
  }

  #handleBelow([, box = '', ...rest]: readonly string[], request: IncomingMessage): Promise<void> {
    const { below } = this.#find(this.#objects.boxes ?? new Map(), box) ?? {};
    if (below) return below.#handlePath(rest, request);
    if (request.method === 'DELETE') return this.succeed(200, { deleted: false });
    return this.fail(404, 'NOT_FOUND', 'There is no such box.');
  }

  #unknown(): never {
    this.fail(this.#has('an unknown path is 400') ? 400 : 404, 'API_NOT_FOUND', 'There is no such API.');
  }

  #segmentsOf(url: string): string[] {
    const [path = ''] = url.split('?');
    const [, api, version, ...parts] = path.split('/');
    if (api !== 'api' || version !== 'v1') this.#unknown();
    try {
      return parts.map(decodeURIComponent);
    } catch {
      return this.fail(
        this.#has('a broken escape is 400') ? 400 : 404,
        'API_NOT_FOUND',
        'The path is not encoded well.',
      );
    }
  }

  #authenticate({ headers: { authorization } }: IncomingMessage): void {
    if (authorization === `Bearer ${token}`) return;
    if (authorization === undefined && this.#has('missing credentials are 403'))
      this.fail(403, 'FORBIDDEN', 'Sign in.');
    if (authorization !== undefined && this.#has('wrong credentials are accepted')) return;
    this.fail(401, 'UNAUTHENTICATED', 'Sign in.');
  }

  async #bodyOf(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
    const isJson = request.headers['content-type'] === 'application/json';
    const text = await textOf(request);
    if (!isJson && !this.#has('text is read as JSON')) this.fail(415, 'UNSUPPORTED_MEDIA_TYPE', 'Send JSON.');
    if (text.startsWith('<')) this.fail(this.#has('XML is 400') ? 400 : 415, 'UNSUPPORTED_MEDIA_TYPE', 'Send JSON.');
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      this.fail(400, 'MALFORMED_JSON', 'The body is not JSON.');
    }
    const { name = '', comment = '' } = (value ?? {}) as Readonly<Record<string, unknown>>;
    if (Array.isArray(value) || typeof name !== 'string' || typeof comment !== 'string')
      this.fail(this.#has('a wrong body is 500') ? 500 : 400, 'INVALID', 'The body is wrong.');
    return value as Readonly<Record<string, unknown>>;
  }

  #segment = (name: string): string => (this.#has('objects are found by a slug of their name') ? slugOf(name) : name);

  #record(category: string, { name, comment }: Box): Readonly<Record<string, unknown>> {
    const segment = this.#has('the URI of a creation leads nowhere') ? `nothing-${name}` : this.#segment(name);
    const uri = this.#has('a creation has no URI')
      ? {}
      : { uri: `${this.#base}/${category}/${encodeURIComponent(segment)}` };
    return { name, comment, ...uri, ...(this.#has('fields are in snake_case') ? { created_at: 'now' } : {}) };
  }

  #list(category: string, objects: ReadonlyMap<string, Box>): never {
    if (this.#has('a collection redirects to itself with a slash'))
      throw new Answer(301, undefined, { location: `/api/v1/${category}/` });
    const records = [...objects.values()].map((box) => this.#record(category, box));
    if (this.#has('a list is an array')) throw new Answer(200, records);
    return this.succeed(200, { [category]: records });
  }

  #find(objects: ReadonlyMap<string, Box>, segment: string): Box | undefined {
    return [...objects.values()].find(({ name }) => this.#segment(name) === segment);
  }

  #show(category: string, objects: ReadonlyMap<string, Box>, segment: string): never {
    const box = this.#find(objects, segment) ?? this.fail(404, 'NOT_FOUND', 'There is no such object.');
    return this.succeed(this.#has('an object is shown with 201') ? 201 : 200, this.#record(category, box));
  }

  #task(method: string, id: string, action: string | undefined): never {
    const task = this.#tasks.get(id);
    if (method === 'DELETE' && action === undefined) return this.#deleteTask(id, task);
    if (!task) return this.fail(404, 'NOT_FOUND', 'There is no such task.');
    if (method === 'POST' && action === 'cancel') return this.#cancelTask(task);
    if (method !== 'GET' || action !== undefined) return this.#unknown();
    return this.succeed(200, task);
  }

  #cancelTask(task: StoredTask): never {
    if (this.#has('a running task cannot be cancelled')) this.fail(400, 'NOT_CANCELLABLE', 'It cannot be cancelled.');
    if (task.state === 'running') task.state = 'cancelled';
    if (this.#has('a cancelled task is not shown')) this.#tasks.delete(task.taskId);
    return this.succeed(200, task);
  }

  #deleteTask(id: string, task: StoredTask | undefined): never {
    if (this.#has('a task cannot be deleted')) this.fail(405, 'METHOD_NOT_ALLOWED', 'Tasks stay.', { allow: 'GET' });
    if (!task && this.#has('a task is not deleted twice')) this.fail(404, 'NOT_FOUND', 'There is no such task.');
    if (!this.#has('a deleted task is still shown')) this.#tasks.delete(id);
    return this.succeed(200, { deleted: task !== undefined });
  }

  #create(
    { method, category, objects }: { method: string; category: string; objects: Map<string, Box> },
    inPath: string | undefined,
    body: Readonly<Record<string, unknown>>,
  ): never {
    const { name: inBody } = body as { name?: string };
    const name = this.#has('the body takes precedence') ? (inBody ?? inPath) : (inPath ?? inBody);
    if (name === undefined || name === '') this.fail(400, 'INVALID', 'Give a name.');
    const exists = objects.has(name);
    if (exists && method === 'POST' && !this.#has('POST replaces what exists'))
      this.fail(this.#has('a duplicate is 409') ? 409 : 400, 'EXISTS', 'The object exists.');
    if (exists && method === 'PUT' && this.#has('PUT of what exists fails'))
      this.fail(400, 'EXISTS', 'The object exists.');
    const box = objects.get(name) ?? this.#newBox(category, name);
    if (category === 'parcels' && !exists) this.#accept(() => void objects.set(name, box));
    objects.set(name, box);
    return this.succeed(method === 'POST' && this.#has('POST is 200') ? 200 : 201, this.#record(category, box));
  }

  #accept(work: () => void): never {
    const taskId = `t${++this.#taskCount}`;
    const task: StoredTask = { taskId, state: 'running' };
    if (!this.#has('the URI of a task leads nowhere')) this.#tasks.set(taskId, task);
    setTimeout(
      () => {
        if (task.state !== 'running') return;
        work();
        task.state = 'succeeded';
      },
      this.#has('a running task cannot be cancelled') ? longTaskMs : taskMs,
    );
    return this.succeed(202, this.#has('a task has no URI') ? { taskId } : { taskId, uri: `/api/v1/tasks/${taskId}` });
  }

  #patch(
    category: string,
    objects: Map<string, Box>,
    segment: string,
    { comment }: Readonly<Record<string, unknown>>,
  ): never {
    const box = this.#find(objects, segment) ?? this.fail(404, 'NOT_FOUND', 'There is no such object.');
    if (typeof comment === 'string' && !this.#has('PATCH changes nothing')) box.comment = comment;
    return this.succeed(200, this.#record(category, box));
  }

  #delete(category: string, objects: Map<string, Box>, segment: string): never {
    if (this.#has('deletions are refused')) this.fail(403, 'FORBIDDEN', 'Nothing is deleted here.');
    const box = this.#find(objects, segment);
    if (!box && this.#has('DELETE of what is gone fails')) this.fail(404, 'NOT_FOUND', 'There is no such object.');
    const remove = () => void (box && objects.delete(box.name));
    if (category === 'parcels' && box) this.#accept(remove);
    if (!this.#has('DELETE does nothing')) remove();
    if (this.#has('a deletion is 204')) throw new Answer(204, undefined);
    if (this.#has('a deletion has no body')) throw new Answer(200, undefined);
    return this.succeed(200, { deleted: box !== undefined });
  }

  async respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.#has('creations are never answered') && request.method === 'POST') {
      // It is created all the same.
      const { name } = JSON.parse(await textOf(request)) as { readonly name: string };
      this.#objects.boxes?.set(name, this.#newBox('boxes', name));
      return;
    }
    try {
      await this.handle(request);
    } catch (error) {
      if (!(error instanceof Answer)) throw error;
      const headers = this.#has('a header of its own kind')
        ? { 'x-powered-by': 'habit', ...error.headers }
        : error.headers;
      response.writeHead(error.status, { 'content-type': 'application/json', 'x-service-request-id': '1', ...headers });
      response.end(error.body === undefined ? undefined : JSON.stringify(error.body));
    }
  }
}

const body = {
  content: {
    'application/json': {
      schema: {
        type: 'object',
        required: ['name'],
        properties: { name: { type: 'string' }, comment: { type: 'string' } },
      },
    },
  },
};
const change = {
  content: { 'application/json': { schema: { type: 'object', properties: { comment: { type: 'string' } } } } },
};
const responses = { default: { description: 'See the standard.' } };
const parameter = (name: string) => ({ name, in: 'path', required: true, schema: { type: 'string' } });
const pathsOf = (category: string, requestBody: object = body) => ({
  [`/${category}`]: { get: { responses }, post: { requestBody, responses } },
  [`/${category}/{name}`]: {
    parameters: [parameter('name')],
    get: { responses },
    put: { requestBody, responses },
    patch: { requestBody: change, responses },
    delete: { responses },
  },
});
const bodyWith = (properties: Readonly<Record<string, object>>) => ({
  content: {
    'application/json': {
      schema: {
        type: 'object',
        required: ['name', ...Object.keys(properties)],
        properties: { name: { type: 'string' }, comment: { type: 'string' }, ...properties },
      },
    },
  },
});
const item = bodyWith({
  size: { type: 'integer', minimum: 3 },
  kind: { type: 'string', enum: ['round', 'square'] },
  code: { type: 'string', pattern: '^[A-Z]{2}\\d$', examples: ['AB1'] },
  origin: { $ref: '#/components/schemas/Origin' },
  tags: { type: 'array', items: { type: 'string' } },
});
const origin = {
  type: 'object',
  required: ['city'],
  properties: { city: { type: 'string', minLength: 2 }, street: { type: 'string' } },
};
/** Nothing says what fits. */
const seal = bodyWith({ print: { type: 'string', pattern: '^[0-9a-f]{32}$' } });
const itemPaths = Object.fromEntries(
  Object.entries(pathsOf('items', item)).map(([path, operations]) => [
    `/boxes/{box}${path}`,
    { ...operations, parameters: [parameter('box'), ...('parameters' in operations ? operations.parameters : [])] },
  ]),
);
/** What `conform` reads by itself. */
const document = {
  openapi: '3.1.0',
  info: { title: 'Boxes', version: '1' },
  servers: [{ url: '/api/v1' }],
  security: [{ bearer: [] }],
  paths: { ...pathsOf('boxes'), ...itemPaths, ...pathsOf('parcels'), ...pathsOf('seals', seal) },
  components: { schemas: { Origin: origin }, securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
};

export async function startFaultyServer(...planted: readonly (Fault | Trouble)[]): Promise<FaultyServer> {
  const service = new Service(planted);
  const waiting: { readonly method: string; readonly resolve: () => void }[] = [];
  const server: Server = createServer((request, response) => {
    for (const { method, resolve } of waiting) if (request.method === method) resolve();
    void service.respond(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    token,
    names: () => service.names(),
    next: (method) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.push({ method, resolve });
      return promise;
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
