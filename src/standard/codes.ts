// The closed table of codes: what each means, its status, and what the client should do (rest-standard A4, B2). The page
// docs/codes.md, the OpenAPI document and the envelope all read this table; a code that is not here cannot be sent.

export type SuccessStatus = 200 | 201 | 202;
type RefusalStatus = 400 | 401 | 403 | 404 | 405 | 406 | 415;
export type FailureStatus = RefusalStatus | 500 | 503;

/**
 * What became of a request that is answered with a 5xx (rest-standard B2). `notApplied`: nothing was changed and nothing will be.
 * `unknown`: it may have been applied, or may still be.
 */
export type RequestOutcome = 'notApplied' | 'unknown';

interface CodeText {
  readonly meaning: string;
  readonly client: string;
}

type CodeDefinition =
  | (CodeText & {
      readonly status: RefusalStatus;
      readonly outcome?: undefined;
      readonly retryAfterSeconds?: undefined;
    })
  | (CodeText & {
      readonly status: 500 | 503;
      /** The outcome of a request that changes something, unless the failure has its own. */
      readonly outcome: RequestOutcome;
      /** For 503: the Retry-After that is sent unless the failure has its own. */
      readonly retryAfterSeconds?: number;
    });

const define = <const K extends string>(table: Record<K, CodeDefinition>): Record<K, CodeDefinition> => table;

export const codes = define({
  // 400: the request
  INVALID_PARAMETER: {
    status: 400,
    meaning: 'A field, path segment or query parameter has a wrong type or value.',
    client: 'Mend what `result.violations` names.',
  },
  UNKNOWN_FIELD: {
    status: 400,
    meaning: 'The body has a field that this API does not declare.',
    client: 'Remove the fields that `result.violations` names.',
  },
  EMPTY_BODY: {
    status: 400,
    meaning: 'The API needs a JSON object with at least one field.',
    client: 'Send the fields to change.',
  },
  MALFORMED_JSON: {
    status: 400,
    meaning: 'The body starts as JSON and breaks, nests too deep, or has an object that names a member twice.',
    client: 'Mend the text at `result.line` and `result.column`.',
  },
  BODY_TOO_LARGE: {
    status: 400,
    meaning: 'The body is larger than this API takes, or has more values.',
    client: 'Send less in one request; `result.bytesMax` or `result.valuesMax` is the limit.',
  },
  BODY_NOT_ALLOWED: { status: 400, meaning: 'The method takes no body.', client: 'Send no body.' },
  BODY_AND_QUERY: {
    status: 400,
    meaning: 'Query parameters and a body came together.',
    client: 'Send what the API declares: one or the other.',
  },
  UNKNOWN_QUERY_PARAMETER: {
    status: 400,
    meaning: 'A query parameter is not declared for this API.',
    client: 'Remove it.',
  },
  REPEATED_QUERY_PARAMETER: {
    status: 400,
    meaning: 'A query parameter stands more than once.',
    client: 'Send it once.',
  },
  INVALID_NAME: {
    status: 400,
    meaning: 'An object name is not acceptable.',
    client: 'Choose another name; the message says why.',
  },
  INVALID_PAGE_TOKEN: {
    status: 400,
    meaning: 'The page token is not one that this list handed out.',
    client: 'Start the list again without a token.',
  },
  INVALID_IDEMPOTENCY_KEY: {
    status: 400,
    meaning: 'x-service-idempotency-key is not 1 to 255 visible ASCII characters.',
    client: 'Send another, or none.',
  },
  IDEMPOTENCY_KEY_REUSED: {
    status: 400,
    meaning: 'The idempotency key came with another request within a day.',
    client: 'Make a new key for each request, and send the same only with the same request.',
  },
  INVALID_REQUEST_ID: {
    status: 400,
    meaning: 'x-service-request-id is not 1 to 128 visible ASCII characters.',
    client: 'Send another, or none.',
  },
  MALFORMED_HTTP: {
    status: 400,
    meaning: 'The bytes are not an HTTP request that this server reads.',
    client: 'Check the client or what is between.',
  },
  HEADERS_TOO_LARGE: {
    status: 400,
    meaning: 'The request line and headers are too large.',
    client: 'Send fewer or shorter headers.',
  },
  REQUEST_TIMEOUT: {
    status: 400,
    meaning: 'The request did not arrive whole in time.',
    client: 'Send it again, faster.',
  },
  EXPECTATION_FAILED: {
    status: 400,
    meaning: 'The Expect header asks for something that is not offered.',
    client: 'Leave the header out.',
  },
  // 400: the state of things
  OBJECT_ALREADY_EXISTS: {
    status: 400,
    meaning: 'An object of that name (or one that differs in case only) exists.',
    client: 'Choose another name, or use PUT.',
  },
  NOT_EMPTY: { status: 400, meaning: 'The object has children.', client: 'Delete them first, or pass `cascade=true`.' },
  VERSION_CONFLICT: {
    status: 400,
    meaning: '`expectedVersion` or `If-Match` is not the current state of the object.',
    client: 'Read the object again and decide anew.',
  },
  CHANGE_IN_PROGRESS: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'Another change of this object, or of its parent, is under way.',
    client: 'Send the request again after the given time.',
    retryAfterSeconds: 1,
  },
  OBJECT_PROTECTED: {
    status: 400,
    meaning: 'The object is built in and cannot be changed this way.',
    client: 'Leave it.',
  },
  IN_USE: {
    status: 400,
    meaning: 'Other objects depend on this one.',
    client: 'Change or remove those that `result` names first.',
  },
  TASK_NOT_CANCELLABLE: {
    status: 400,
    meaning: 'The task has passed the point at which it can be cancelled.',
    client: 'Wait for its end.',
  },
  CHANGE_NOT_SUPPORTED: {
    status: 400,
    meaning: 'The engine or the rules of types do not allow this change.',
    client: 'Make another table and move the data.',
  },
  TASK_DEPENDENCY_FAILED: {
    status: 400,
    meaning: 'A task that this one was to come after failed or was cancelled, so this one was never begun.',
    client: 'See why that one, `result.taskId`, has not succeeded; then submit both again.',
  },
  TASK_INTERRUPTED: {
    status: 503,
    outcome: 'unknown',
    meaning: 'The server stopped while the task ran, and work of this kind is not begun again by itself.',
    client: 'Look at what the task did, then submit it again.',
    retryAfterSeconds: 1,
  },
  TASK_ATTEMPTS_EXHAUSTED: {
    status: 503,
    outcome: 'unknown',
    meaning: 'The task was begun several times and was interrupted or found the service unavailable each time.',
    client:
      'Look at the message, and whether a statement had its effect all the same; submit it again when the reason is gone.',
    retryAfterSeconds: 60,
  },
  TASK_ENDED_ENGINE: {
    status: 400,
    meaning:
      'The task ended the process of its engine twice: its statement or its file asks for more than a process has.',
    client: 'Make the work smaller, or the file simpler; then submit it again.',
  },
  // 400: SQL and data
  SQL_INVALID: {
    status: 400,
    meaning: 'The SQL text does not parse or bind, or fails on the data it meets.',
    client: 'Mend the SQL; `result.line` and `result.column` say where.',
  },
  SQL_NOT_SUPPORTED: {
    status: 400,
    meaning: 'The statement is not one that is run as SQL.',
    client: 'Use the endpoint that the message names.',
  },
  SQL_FORBIDDEN_FUNCTION: {
    status: 400,
    meaning: 'The statement uses a function that is not offered.',
    client: 'Remove it.',
  },
  PARAMETERS_INVALID: {
    status: 400,
    meaning: 'The parameters do not fit those of the statement.',
    client: 'Send one value for each parameter.',
  },
  ROWS_INVALID: {
    status: 400,
    meaning: 'Rows do not fit the table. Nothing was inserted.',
    client: 'Mend the rows that `result.violations` names by index.',
  },
  DATA_INVALID: {
    status: 400,
    meaning:
      'The data to be loaded or restored cannot be read, is not as it was written, or does not fit. Nothing was changed.',
    client: 'Mend the data, or say how it is to be read; `result` names the row and the column.',
  },
  CONSTRAINT_VIOLATED: {
    status: 400,
    meaning: 'The data breaks a key or a NOT NULL. Nothing was changed.',
    client: 'Mend the data; `result` shows a sample.',
  },
  HOST_NOT_ALLOWED: {
    status: 400,
    meaning: 'The server may not connect to the host that the request names.',
    client: 'Ask the operator to list the host, or bring the data by an upload.',
  },
  REMOTE_REFUSED: {
    status: 400,
    meaning:
      'A server elsewhere, from which data comes or to which it goes, refused: no such object, no access, too large.',
    client: 'Correct the address or the credentials; `result.remoteStatus` is what it answered.',
  },
  STATEMENT_TIMEOUT: {
    status: 400,
    meaning: 'The statement ran longer than the warehouse allows and was stopped.',
    client: 'Make it cheaper, or raise `statementTimeoutSeconds`.',
  },
  STATEMENT_CANCELLED: {
    status: 400,
    meaning: 'The statement was cancelled.',
    client: 'Run it again if it is still wanted.',
  },
  MEMORY_LIMIT_EXCEEDED: {
    status: 400,
    meaning: 'The statement needs more memory than the warehouse allows.',
    client: 'Make it cheaper, or raise `memoryLimitBytes`.',
  },
  STATEMENT_QUARANTINED: {
    status: 400,
    meaning:
      'The statement, with these parameters and by this caller, ended the process of the engine; it is refused until `result.until`.',
    client: 'Write it in another way; or let an operator of the warehouse release it (`release_quarantine`).',
  },
  SPILL_LIMIT_EXCEEDED: {
    status: 400,
    meaning: 'The statement needs more temporary disk than the warehouse, or one principal, is allowed.',
    client: 'Make it cheaper, or raise `spillLimitBytes` or `principalSpillBytesMax`.',
  },
  RESULT_QUOTA_EXCEEDED: {
    status: 400,
    meaning: 'The results stored for the caller are as large as they may be; this one is not kept.',
    client: 'Delete tasks whose results are no longer needed, or ask for fewer rows; `result` has the sizes.',
  },
  FILE_OFFSET_INVALID: {
    status: 400,
    meaning: 'The part does not go on where the upload stands, or is beyond its end.',
    client: 'Go on at `result.receivedBytes`.',
  },
  FILE_DIGEST_MISMATCH: {
    status: 400,
    meaning: 'The bytes that came are not those that the digest stands for; they are not kept.',
    client: 'Send them again from `result.receivedBytes` on.',
  },
  FILE_QUOTA_EXCEEDED: {
    status: 400,
    meaning: 'The files of the caller are as large, or as many, as they may be.',
    client: 'Delete uploads that are no longer needed; `result` has the limit.',
  },
  RESULT_EXPIRED: {
    status: 400,
    meaning: 'The pages of this result are no longer kept.',
    client: 'Run the query again.',
  },
  // who
  UNAUTHENTICATED: {
    status: 401,
    meaning: 'Authentication is missing, illegal or failed.',
    client: 'Send valid credentials.',
  },
  FORBIDDEN: { status: 403, meaning: 'The caller may not do this.', client: 'Ask for the privilege.' },
  // where and how
  API_NOT_FOUND: {
    status: 404,
    meaning: 'The URI is not a registered REST API.',
    client: 'Check the path and its encoding.',
  },
  OBJECT_NOT_FOUND: {
    status: 404,
    meaning: 'The object, or a parent in the path, does not exist.',
    client: 'Check `result.category` and `result.name`.',
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    meaning: 'The path is known, the method is not one of its own.',
    client: 'Use one that the Allow header names.',
  },
  NOT_ACCEPTABLE: {
    status: 406,
    meaning: 'The Accept header admits no application/json.',
    client: 'Accept application/json.',
  },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    meaning: 'The content is not of the media type that this API declares.',
    client: 'Send the declared Content-Type, and content that is of it.',
  },
  // the service
  INTERNAL_ERROR: {
    status: 500,
    outcome: 'unknown',
    meaning: 'An unexpected error of the service.',
    client: 'Retry later; report `result.errorId`.',
  },
  WAREHOUSE_BUSY: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'The queue of the warehouse is full, or the wait in it was too long.',
    client: 'Retry after the given time.',
    retryAfterSeconds: 1,
  },
  WAREHOUSE_SUSPENDED: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'The warehouse is suspended and does not resume by itself.',
    client: 'Resume it, then retry.',
    retryAfterSeconds: 5,
  },
  WAREHOUSE_STARTING: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'The warehouse is starting.',
    client: 'Retry after the given time.',
    retryAfterSeconds: 1,
  },
  WAREHOUSE_FAILED: {
    status: 503,
    outcome: 'unknown',
    meaning: 'The engine of the warehouse stopped while the request ran, or does not start.',
    client: 'Retry; if it stays, look at the health of the warehouse.',
    retryAfterSeconds: 1,
  },
  CATALOG_DAMAGED: {
    status: 503,
    meaning:
      'A file of the catalog is missing, damaged, or older than work that was acknowledged; the others are served.',
    client: 'Tell an operator: `result.reason` says what is wrong, `tabularium check` what can be repaired.',
    outcome: 'notApplied',
    retryAfterSeconds: 300,
  },
  NOT_ENOUGH_BACKENDS: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'The table asks for more replicas than there are available backends.',
    client: 'Add or enable backends, or ask for fewer replicas.',
    retryAfterSeconds: 30,
  },
  REPLICAS_UNAVAILABLE: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'A table that the statement needs has no available replica.',
    client: 'Retry when the backends that `result.tables` need are back.',
    retryAfterSeconds: 10,
  },
  STORAGE_FULL: {
    status: 503,
    outcome: 'unknown',
    meaning: 'The disk of the service is full.',
    client: 'Free space, then retry.',
    retryAfterSeconds: 60,
  },
  IDENTITY_PROVIDER_UNAVAILABLE: {
    status: 503,
    outcome: 'notApplied',
    meaning:
      'The keys of the identity provider that issued the token are not to be had, so that it cannot be verified.',
    client: 'Retry after the given time.',
    retryAfterSeconds: 5,
  },
  REMOTE_UNAVAILABLE: {
    status: 503,
    outcome: 'unknown',
    meaning: 'A server elsewhere, from which data comes or to which it goes, does not answer, or broke off.',
    client: 'Retry after the given time.',
    retryAfterSeconds: 10,
  },
  RATE_LIMITED: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'The caller reached a rate limit.',
    client: 'Retry after the given time.',
    retryAfterSeconds: 1,
  },
  SERVER_BUSY: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'The server has as much to do at once as it takes; the request was not begun.',
    client: 'Retry after the given time.',
    retryAfterSeconds: 1,
  },
  TOO_MANY_QUERIES: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'As many statements of the caller run, or wait for their warehouse, as one principal may have.',
    client: 'Retry when one of them has ended, or submit it as a task, which waits.',
    retryAfterSeconds: 1,
  },
  TOO_MANY_TASKS: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'As many tasks of the caller have not ended as one principal may have.',
    client: 'Retry when some of them have ended, or cancel those that are not wanted.',
    retryAfterSeconds: 5,
  },
  SHUTTING_DOWN: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'The server is shutting down.',
    client: 'Retry, perhaps on another server.',
    retryAfterSeconds: 5,
  },
});

export type Code = keyof typeof codes;
