// The sentences of the REST standard (docs/rest_standard.md) that the rules cite. A rule cites nothing else.

export interface Clause {
  /** The section of docs/rest_standard.md. */
  readonly section: 'A1' | 'A2' | 'A3' | 'A4' | 'A5' | 'A6';
  /** As written there. */
  readonly text: string;
}

export const clauses = {
  pathForm: {
    section: 'A1',
    text: 'A path is `/api/{version}/{target-object-access-path}/{action}`; `{version}` is `v` and a number.',
  },
  alternation: {
    section: 'A1',
    text: 'The access path alternates category and object: `/catalogs/{catalog}/databases/{database}/tables/{table}/columns/{column}`.',
  },
  collectionsAndObjects: {
    section: 'A1',
    text: 'A path that ends in a category is the collection, one that ends in an object name is that object; nesting is parent-child.',
  },
  categoryNames: { section: 'A1', text: 'A category is lower snake_case and its last word is plural.' },
  objectNames: { section: 'A1', text: "An object segment is the object's actual name (percent-encoded)." },
  actions: {
    section: 'A1',
    text: '`{action}` is used only where no HTTP method can say it (rename is the example).',
  },
  get: { section: 'A2', text: '| GET | show an object, list a collection | none | read-only | 200 |' },
  post: { section: 'A2', text: '| POST | create | JSON | not idempotent: fails with an error if it exists | 201 |' },
  put: {
    section: 'A2',
    text: '| PUT | create | JSON | idempotent: success if it exists (create-if-not-exists) | 201 |',
  },
  delete: { section: 'A2', text: '| DELETE | delete | none | success if it does not exist (drop-if-exists) | 200 |' },
  patch: { section: 'A2', text: '| PATCH | update | only the fields to change | | 200 |' },
  task: { section: 'A2', text: '| any that submits a task | | | | 202 |' },
  envelope: {
    section: 'A3',
    text: 'Every non-empty response is one JSON object `{"code": string, "message": string, "result": object}`.',
  },
  success: { section: 'A3', text: 'Success: code `"0"`, message `"OK"`, result the actual result.' },
  failure: { section: 'A3', text: 'Failure: any other code, a short message, and result may hold details.' },
  successBodies: { section: 'A3', text: '200, 201 and 202 always have a non-empty body.' },
  camelCase: { section: 'A3', text: 'JSON fields are camelCase; the one exception is `unique_key_constraints`.' },
  createdUri: { section: 'A3', text: "201 bodies include the object's URI." },
  taskUri: {
    section: 'A3',
    text: "202 bodies include the task's URI, by which the task is polled (200), cancelled and deleted.",
  },
  closedSet: { section: 'A4', text: 'Nothing else is ever sent under `/api/`.' },
  invalidParameters: { section: 'A4', text: '| 400 | invalid request parameters |' },
  unauthenticated: { section: 'A4', text: '| 401 | authentication missing, illegal or failed |' },
  unregistered: { section: 'A4', text: '| 404 | the URI is not a registered REST API (path encoding error) |' },
  wrongMethod: { section: 'A4', text: '| 405 | wrong HTTP method |' },
  notAcceptable: { section: 'A4', text: '| 406 | the response format does not match `Accept` |' },
  mediaType: { section: 'A4', text: '| 415 | the media type of the content does not match `Content-Type` |' },
  precedence: { section: 'A5', text: 'Precedence: path, then request body, then query, then header.' },
  pathParameters: { section: 'A5', text: 'Path parameters are required and are the hierarchy.' },
  jsonBodies: { section: 'A5', text: 'Bodies are `application/json`.' },
  queryMaximum: {
    section: 'A5',
    text: 'Query parameters only where an API has at most 2 parameters outside path and headers; otherwise a body.',
  },
  queryOrBody: { section: 'A5', text: 'Never query and body on the same API.' },
  standardHeaders: { section: 'A5', text: 'Headers carry standard HTTP parameters only.' },
  extensionHeaders: {
    section: 'A5',
    text: 'User extensions are `x-service-{name}`, lower case, words joined by hyphens.',
  },
  credentials: { section: 'A6', text: 'Credentials are in request headers.' },
} as const satisfies Readonly<Record<string, Clause>>;

/** The closed set of A4. */
export const allowedStatuses: ReadonlySet<number> = new Set([
  200, 201, 202, 400, 401, 403, 404, 405, 406, 415, 500, 503,
]);
