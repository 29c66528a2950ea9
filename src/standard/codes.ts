// The closed table of response codes: meaning, status and advice to the client (rest-standard A4, B2). docs/codes.md, the OpenAPI
// document and the envelope are derived from this table; a code that is not in it cannot be sent.

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
      /** The default outcome of a request that changes something; a failure may override it. */
      readonly outcome: RequestOutcome;
      /** For 503: the default Retry-After in seconds; a failure may override it. */
      readonly retryAfterSeconds?: number;
    });

const define = <const K extends string>(table: Record<K, CodeDefinition>): Record<K, CodeDefinition> => table;

export const codes = define({
  // 400: the request
  INVALID_PARAMETER: {
    status: 400,
    meaning: 'A field, path segment or query parameter has a wrong type or value.',
    client: 'Correct the values that `result.violations` lists.',
  },
  UNKNOWN_FIELD: {
    status: 400,
    meaning: 'The body has a field that this API does not declare.',
    client: 'Remove the fields that `result.violations` lists.',
  },
  EMPTY_BODY: {
    status: 400,
    meaning: 'The API requires a JSON object with at least one field.',
    client: 'Send the fields to change.',
  },
  MALFORMED_JSON: {
    status: 400,
    meaning: 'The body is not valid JSON, is nested too deeply, or has an object with a duplicate member name.',
    client: 'Correct the text at `result.line` and `result.column`.',
  },
  BODY_TOO_LARGE: {
    status: 400,
    meaning: 'The body is larger, or has more values, than this API accepts.',
    client: 'Send less data per request; `result.bytesMax` or `result.valuesMax` is the limit.',
  },
  BODY_NOT_ALLOWED: {
    status: 400,
    meaning: 'The method does not accept a body.',
    client: 'Send the request without a body.',
  },
  BODY_AND_QUERY: {
    status: 400,
    meaning: 'The request has both query parameters and a body.',
    client: 'Send only the one that the API declares.',
  },
  UNKNOWN_QUERY_PARAMETER: {
    status: 400,
    meaning: 'A query parameter is not declared for this API.',
    client: 'Remove it.',
  },
  REPEATED_QUERY_PARAMETER: {
    status: 400,
    meaning: 'A query parameter is repeated.',
    client: 'Send it once.',
  },
  INVALID_NAME: {
    status: 400,
    meaning: 'An object name is not valid.',
    client: 'Choose another name; the message says why.',
  },
  INVALID_PAGE_TOKEN: {
    status: 400,
    meaning: 'The page token was not issued by this list.',
    client: 'Start the list again without a token.',
  },
  INVALID_IDEMPOTENCY_KEY: {
    status: 400,
    meaning: 'x-service-idempotency-key is not 1 to 255 visible ASCII characters.',
    client: 'Correct the header, or omit it.',
  },
  IDEMPOTENCY_KEY_REUSED: {
    status: 400,
    meaning: 'The idempotency key was used with a different request within the last 24 hours.',
    client: 'Use a new key for each request, and repeat a key only when you retry the same request.',
  },
  INVALID_REQUEST_ID: {
    status: 400,
    meaning: 'x-service-request-id is not 1 to 128 visible ASCII characters.',
    client: 'Correct the header, or omit it.',
  },
  INVALID_READ_AFTER: {
    status: 400,
    meaning: 'x-service-read-after is not a value that a response had.',
    client: 'Correct the header, or omit it.',
  },
  MALFORMED_HTTP: {
    status: 400,
    meaning: 'The bytes are not a valid HTTP request.',
    client: 'Check the client and any proxy between it and the server.',
  },
  HEADERS_TOO_LARGE: {
    status: 400,
    meaning: 'The request line and headers are too large, or there are too many headers.',
    client: 'Send fewer or shorter headers.',
  },
  REQUEST_TIMEOUT: {
    status: 400,
    meaning: 'The request was not received completely within the time limit.',
    client: 'Retry over a faster connection, or send a smaller request.',
  },
  EXPECTATION_FAILED: {
    status: 400,
    meaning: 'The Expect header names an expectation that is not supported.',
    client: 'Omit the header.',
  },
  // 400: the state of objects
  OBJECT_ALREADY_EXISTS: {
    status: 400,
    meaning: 'An object of that name, or of a name that differs only in case, already exists.',
    client: 'Choose another name, or use PUT.',
  },
  NOT_EMPTY: { status: 400, meaning: 'The object has children.', client: 'Delete them first, or pass `cascade=true`.' },
  VERSION_CONFLICT: {
    status: 400,
    meaning: '`expectedVersion` or `If-Match` does not match the current state of the object.',
    client: 'Read the object again, then decide whether the change still applies.',
  },
  CHANGE_IN_PROGRESS: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'Another change of this object, or of its parent, is in progress.',
    client: 'Retry after the time in `Retry-After`.',
    retryAfterSeconds: 1,
  },
  OBJECT_PROTECTED: {
    status: 400,
    meaning: 'The object is built in and cannot be changed in this way.',
    client: 'Do not change it; create an object of your own if you need a different one.',
  },
  SERVER_AVAILABLE: {
    status: 400,
    meaning: 'Only a server that is lost can be removed, and this one responds.',
    client: 'Stop the server first; remove it only if it will never be started again.',
  },
  IN_USE: {
    status: 400,
    meaning: 'Other objects depend on this one.',
    client: 'Change or remove the objects that `result` lists first.',
  },
  BACKEND_UNSUITABLE: {
    status: 400,
    meaning: 'The server cannot be a backend of this warehouse.',
    client:
      'Correct what `result.reason` names: `credentials`, `version`, `cluster` (it does not know the cluster or is no member of it), `replication` (it differs from the other backends in what it can replicate), `registered` (it is a backend already) or `protocol` (it is no server of this engine).',
  },
  BACKEND_HAS_TABLES: {
    status: 400,
    meaning: 'The backend may have rows of tables, which would no longer be reachable.',
    client: 'Decommission the backend first.',
  },
  DECOMMISSION_BLOCKED: {
    status: 400,
    meaning: 'The backend was not decommissioned in time: other backends do not have all of its tablets.',
    client:
      'Remove what `result.blockers` names, for example enable another replica or drop the tables, then decommission it again.',
  },
  TASK_NOT_CANCELLABLE: {
    status: 400,
    meaning: 'The task has passed the point at which it can be cancelled.',
    client: 'Wait until it ends.',
  },
  SCHEDULE_NOT_RUNNABLE: {
    status: 400,
    meaning: 'The owner of the schedule is disabled, or has not confirmed what it does.',
    client: 'Have its owner confirm it, by a PATCH with `query`, `request` or `"disabled": false`.',
  },
  CHANGE_NOT_SUPPORTED: {
    status: 400,
    meaning: 'The engine, the metadata store or the type conversion rules do not support this change.',
    client: 'The message says what to do instead; for a column, create a new table and copy the data into it.',
  },
  NOT_SUPPORTED_BY_ENGINE: {
    status: 400,
    meaning: 'The engine of the warehouse lacks a capability that the request needs.',
    client:
      'Do without it, or use a warehouse whose engine has `result.capability`; docs/engines.md compares the engines.',
  },
  MOVE_NOT_POSSIBLE: {
    status: 400,
    meaning: 'The catalog cannot be moved to this warehouse from where it is.',
    client: 'Choose another warehouse; the message says why.',
  },
  MOVE_BLOCKED: {
    status: 400,
    meaning:
      'Something in the catalog would not carry over to the warehouse, and the request does not consent to that.',
    client: 'Change what `result.problems` lists, or consent with the field that each problem names.',
  },
  TASK_DEPENDENCY_FAILED: {
    status: 400,
    meaning: 'A task that this one depends on failed or was cancelled, so this one was never started.',
    client: 'Find out why the task `result.taskId` did not succeed, then submit both again.',
  },
  TASK_INTERRUPTED: {
    status: 503,
    outcome: 'unknown',
    meaning: 'The server stopped while the task ran, and tasks of this type are not restarted automatically.',
    client: 'Check what the task did, then submit it again.',
    retryAfterSeconds: 1,
  },
  TASK_ATTEMPTS_EXHAUSTED: {
    status: 503,
    outcome: 'unknown',
    meaning: 'Every attempt to run the task was interrupted or found the service unavailable.',
    client:
      'Check the message, and whether the statement took effect all the same; submit the task again when the cause is fixed.',
    retryAfterSeconds: 60,
  },
  TASK_ENDED_ENGINE: {
    status: 400,
    meaning:
      'The task crashed its engine process twice: its statement or its file needs more resources than a process has.',
    client: 'Split the work, or simplify the file; then submit it again.',
  },
  // 400: SQL and data
  SQL_INVALID: {
    status: 400,
    meaning: 'The SQL text does not parse or bind, or fails on the data.',
    client: 'Correct the SQL at `result.line` and `result.column`.',
  },
  SQL_NOT_SUPPORTED: {
    status: 400,
    meaning: 'Statements of this kind cannot be run as SQL.',
    client: 'Use the endpoint that the message names.',
  },
  SQL_FORBIDDEN_FUNCTION: {
    status: 400,
    meaning: 'The statement uses a function that is not available.',
    client: 'Remove the function from the statement.',
  },
  PARAMETERS_INVALID: {
    status: 400,
    meaning: 'The parameter values do not match the parameters of the statement.',
    client: 'Send one value for each parameter.',
  },
  ROWS_INVALID: {
    status: 400,
    meaning: 'Some rows do not match the columns of the table. Nothing was inserted.',
    client: 'Correct the rows that `result.violations` lists by index.',
  },
  DATA_INVALID: {
    status: 400,
    meaning:
      'The data to load or restore cannot be read, is corrupted, or does not match the target. Nothing was changed.',
    client: 'Correct the data or the format options; `result` names the row and the column.',
  },
  CONSTRAINT_VIOLATED: {
    status: 400,
    meaning: 'The data violates a key or a NOT NULL constraint. Nothing was changed.',
    client: 'Correct the data; `result` has a sample of the offending values.',
  },
  HOST_NOT_ALLOWED: {
    status: 400,
    meaning: 'The server is not allowed to connect to the host that the request names.',
    client: 'Ask the operator to allow the host, or upload the data instead.',
  },
  REMOTE_REFUSED: {
    status: 400,
    meaning:
      'A remote server or a directory that data is read from or written to refused it: no such object, no access, or too large.',
    client:
      'Correct the address, directory or credentials; `result.remoteStatus` is the status that the remote server returned.',
  },
  STATEMENT_TIMEOUT: {
    status: 400,
    meaning: 'The statement exceeded the statement timeout of the warehouse and was stopped.',
    client: 'Make the statement cheaper, or raise `statementTimeoutSeconds`.',
  },
  STATEMENT_CANCELLED: {
    status: 400,
    meaning: 'The statement was cancelled.',
    client: 'Run it again if you still need it.',
  },
  STATEMENT_INTERRUPTED: {
    status: 503,
    outcome: 'unknown',
    meaning: 'The server that ran the statement has stopped, and a writing statement may have been applied.',
    client: 'Check what a writing statement did; then run it again.',
    retryAfterSeconds: 1,
  },
  MEMORY_LIMIT_EXCEEDED: {
    status: 400,
    meaning: 'The statement needs more memory than the warehouse allows.',
    client: 'Make the statement cheaper, or raise the limit, if the message names a setting.',
  },
  STATEMENT_QUARANTINED: {
    status: 400,
    meaning:
      'The statement, with these parameters and from this caller, crashed the engine process; it is refused until `result.until`.',
    client: 'Rewrite the statement, or have an operator of the warehouse release it (`release_quarantine`).',
  },
  SPILL_LIMIT_EXCEEDED: {
    status: 400,
    meaning: 'The statement needs more temporary disk space than the warehouse, or one principal, may use.',
    client: 'Make the statement cheaper, or raise `spillLimitBytes` or `principalSpillBytesMax`.',
  },
  RESULT_QUOTA_EXCEEDED: {
    status: 400,
    meaning: 'The stored results of the caller have reached their size limit; this result was not stored.',
    client: 'Delete tasks whose results are no longer needed, or request fewer rows; `result` has the sizes.',
  },
  FILE_OFFSET_INVALID: {
    status: 400,
    meaning: 'The part does not start at the current offset of the upload, or extends beyond its length.',
    client: 'Continue at the offset `result.receivedBytes`.',
  },
  FILE_DIGEST_MISMATCH: {
    status: 400,
    meaning: 'The received bytes do not match the digest; they were discarded.',
    client: 'Send them again, starting at the offset `result.receivedBytes`.',
  },
  FILE_QUOTA_EXCEEDED: {
    status: 400,
    meaning: 'The files of the caller have reached their limit in size or number.',
    client: 'Delete uploads that are no longer needed; `result` has the limit.',
  },
  DRAFT_QUOTA_EXCEEDED: {
    status: 400,
    meaning: 'The drafts of the caller have reached their limit in size or number.',
    client: 'Delete drafts that are no longer needed; `result` has the limits.',
  },
  SAVED_QUERY_QUOTA_EXCEEDED: {
    status: 400,
    meaning: 'The saved queries of their owner have reached their limit in size or number.',
    client: 'Delete saved queries that are no longer needed; `result` has the limits.',
  },
  RESULT_EXPIRED: {
    status: 400,
    meaning: 'The pages of this result have been deleted.',
    client: 'Run the query again.',
  },
  // authentication and authorization
  UNAUTHENTICATED: {
    status: 401,
    meaning: 'Credentials are missing, malformed or not valid.',
    client: 'Send valid credentials.',
  },
  FORBIDDEN: {
    status: 403,
    meaning: 'The caller lacks a privilege that this request requires.',
    client: 'Ask an administrator for the privilege.',
  },
  // routing and content negotiation
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
    meaning: 'The path exists, but does not support the method.',
    client: 'Use one of the methods in the Allow header.',
  },
  NOT_ACCEPTABLE: {
    status: 406,
    meaning: 'The Accept header does not allow application/json.',
    client: 'Accept application/json.',
  },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    meaning: 'The content does not have a media type that this API declares.',
    client: 'Send a declared Content-Type and content of that type.',
  },
  // the service
  INTERNAL_ERROR: {
    status: 500,
    outcome: 'unknown',
    meaning: 'An unexpected error occurred in the service.',
    client: 'Retry later; report `result.errorId`.',
  },
  MOVE_VERIFICATION_FAILED: {
    status: 500,
    outcome: 'notApplied',
    meaning: 'The copy of a table in another warehouse differs from the table; the catalog stays where it was.',
    client: 'Report `result.database`, `result.table` and `result.column`; the move can be tried again.',
  },
  MOVE_PAUSE_EXCEEDED: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'A catalog is written so much that a move cannot end within the time for which writes may be refused.',
    client: 'Move it at a quieter time, or with a larger `pauseSeconds`.',
    retryAfterSeconds: 60,
  },
  WAREHOUSE_BUSY: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'The queue of the warehouse is full, or the request timed out in it.',
    client: 'Retry after the time in `Retry-After`.',
    retryAfterSeconds: 1,
  },
  WAREHOUSE_SUSPENDED: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'The warehouse is suspended and does not resume automatically.',
    client: 'Resume it, then retry.',
    retryAfterSeconds: 5,
  },
  WAREHOUSE_STARTING: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'The warehouse is starting.',
    client: 'Retry after the time in `Retry-After`.',
    retryAfterSeconds: 1,
  },
  WAREHOUSE_ON_ANOTHER_SERVER: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'The data that the request needs is on the server `result.serverId`, which does not respond.',
    client: 'Retry after the time in `Retry-After`. An operator must start that server if it is down.',
    retryAfterSeconds: 5,
  },
  WAREHOUSE_FAILED: {
    status: 503,
    outcome: 'unknown',
    meaning: 'The engine of the warehouse stopped while the request ran, or does not start.',
    client: 'Retry; if the failure persists, check the health of the warehouse.',
    retryAfterSeconds: 1,
  },
  CATALOG_DAMAGED: {
    status: 503,
    meaning:
      'A file of the catalog is missing, damaged, or older than acknowledged changes; other catalogs remain available.',
    client:
      'Notify an operator: `result.reason` says what is wrong, and `tabularium check` reports what can be repaired.',
    outcome: 'notApplied',
    retryAfterSeconds: 300,
  },
  NOT_ENOUGH_BACKENDS: {
    status: 503,
    outcome: 'notApplied',
    meaning:
      'The table requires more replicas than there are available backends, or the change requires backends that are not available.',
    client: 'Add, enable or restart backends, or request fewer replicas.',
    retryAfterSeconds: 30,
  },
  REPLICAS_UNAVAILABLE: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'A table that is needed has no available replica, or too few to store what is written.',
    client: 'Retry when the backends that the tables in `result.tables` need are available again.',
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
    meaning: 'The signing keys of the identity provider are unavailable, so the token cannot be verified.',
    client: 'Retry after the time in `Retry-After`.',
    retryAfterSeconds: 5,
  },
  REMOTE_UNAVAILABLE: {
    status: 503,
    outcome: 'unknown',
    meaning: 'A remote server that data is read from or written to does not respond, or closed the connection early.',
    client: 'Retry after the time in `Retry-After`.',
    retryAfterSeconds: 10,
  },
  RATE_LIMITED: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'The caller exceeded a rate limit.',
    client: 'Retry after the time in `Retry-After`.',
    retryAfterSeconds: 1,
  },
  SERVER_BUSY: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'The server is at a concurrency limit; the request was not started.',
    client: 'Retry after the time in `Retry-After`.',
    retryAfterSeconds: 1,
  },
  TOO_MANY_QUERIES: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'The caller has reached the limit on running and queued statements of one principal.',
    client: 'Retry when one of them has ended, or submit the statement as a task, which is queued.',
    retryAfterSeconds: 1,
  },
  TOO_MANY_TASKS: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'The caller has reached the limit on unfinished tasks of one principal, in number or in size.',
    client: 'Retry when some of them have ended, or cancel tasks that are no longer needed.',
    retryAfterSeconds: 5,
  },
  STORE_UNAVAILABLE: {
    status: 503,
    outcome: 'unknown',
    meaning: 'The metadata store, a database that several servers share, does not respond.',
    client: 'Retry after the time in `Retry-After`.',
    retryAfterSeconds: 1,
  },
  SHUTTING_DOWN: {
    status: 503,
    outcome: 'notApplied',
    meaning: 'The server is shutting down.',
    client: 'Retry, if possible on another server.',
    retryAfterSeconds: 5,
  },
});

export type Code = keyof typeof codes;
