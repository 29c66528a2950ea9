// The rules for running services: what each checks and the sentences that it cites. exchange_checks.ts and the probes find what breaks them.
import { type Clause, clauses } from '../clauses.ts';
import type { ReportedFinding, ReportedRule } from '../report/report.ts';
import type { Exchange } from './calls.ts';

export interface LiveRule {
  readonly id: string;
  readonly title: string;
  readonly clauses: readonly Clause[];
  /** How it is checked, and what is only noted. */
  readonly doc: string;
  /** Why it is not checked, if nothing was seen that it is about. */
  readonly skipped: string;
}

const seen = 'no such response was seen';
const needsNamespace =
  'no object was created: give --namespace, and --collection if the document names none that can be created by a name alone';

const rule = (id: string, title: string, cited: readonly Clause[], doc: string, skipped = seen): LiveRule => ({
  id,
  title,
  clauses: cited,
  doc,
  skipped,
});

export const liveRules = {
  envelope: rule(
    'envelope',
    'A response that is not empty is one JSON object of code, message and result.',
    [clauses.envelope],
    'Checks every response of the run: no other fields, code and message are strings, result is an object.',
  ),
  successCode: rule(
    'success-code',
    'A success has the code "0" and the message "OK", a failure another code and a message.',
    [clauses.success, clauses.failure],
    'Checks every response with the envelope. The names of codes are left to the service.',
  ),
  successBody: rule('success-body', '200, 201 and 202 have a body.', [clauses.successBodies], 'Checks every response.'),
  statusClosed: rule(
    'status-closed',
    'Only the statuses of the closed set are sent.',
    [clauses.closedSet],
    'Checks every response. A status outside the set is reported by this rule alone.',
  ),
  camelCase: rule(
    'camel-case',
    'JSON fields are camelCase.',
    [clauses.camelCase],
    'Checks the fields of results and of the records in their lists. Deeper objects may have names that are data.',
  ),
  headerNames: rule(
    'header-names',
    'Response headers are standard HTTP fields or x-service-{name}.',
    [clauses.standardHeaders, clauses.extensionHeaders],
    'Checks every response, so also at what proxies add to it.',
  ),
  unregistered: rule(
    'unregistered-uri',
    'A URI that is no registered API is 404.',
    [clauses.unregistered],
    'Gets a category that does not exist, and a path with a broken percent-escape.',
  ),
  wrongMethod: rule(
    'wrong-method',
    'A method that a path does not have is 405.',
    [clauses.wrongMethod],
    'Sends PATCH with an empty object to a collection for which the document declares none.',
    'no collection without PATCH is known',
  ),
  unauthenticated: rule(
    'unauthenticated',
    'Missing and wrong credentials are 401.',
    [clauses.unauthenticated, clauses.credentials],
    'Reads a collection without credentials and with wrong ones. Where no document says that credentials are needed, a success without them is noted only.',
    'no credentials were given: --token-file or --authorization-file',
  ),
  notAcceptable: rule(
    'not-acceptable',
    'An Accept header that JSON does not match is 406.',
    [clauses.notAcceptable],
    'Reads a collection with `Accept: text/html`.',
  ),
  mediaType: rule(
    'media-type',
    'Content that does not match its Content-Type is 415.',
    [clauses.mediaType, clauses.jsonBodies],
    'Creates with a body of `text/plain`, and with a body of XML that is declared as JSON. JSON that begins well and breaks may be 400 or 415, which is noted.',
    needsNamespace,
  ),
  invalidParameters: rule(
    'invalid-parameters',
    'Invalid parameters are 400.',
    [clauses.invalidParameters],
    'Creates with an array as the body, and with a name that is an object.',
    needsNamespace,
  ),
  get: rule(
    'get',
    'GET shows an object and lists a collection, with 200.',
    [clauses.get, clauses.collectionsAndObjects],
    'Reads every collection without a parameter in its path, and every object that the kit creates. A refusal (403) is noted. For a missing object, the status is noted: the standard leaves it open.',
  ),
  post: rule(
    'post',
    'POST creates with 201, or submits a task with 202, and fails if the object exists.',
    [clauses.post, clauses.task],
    'Creates an object twice. Which failure the second has is noted, and so are categories in which nothing can be created, each with the reason.',
    needsNamespace,
  ),
  put: rule(
    'put',
    'PUT creates with 201, also if the object exists.',
    [clauses.put],
    'Creates an object twice: at the collection, at its action `create` or at the object, whichever there is. A refusal (400) of a second object with the same values from the document is noted.',
    needsNamespace,
  ),
  patch: rule(
    'patch',
    'PATCH with only the fields to change is 200 and changes them.',
    [clauses.patch],
    'Changes one text field of an object, and reads it again. A refusal (400) of a field whose name does not say that it is for people is noted.',
    'no object with a PATCH whose fields are known was created: give --update',
  ),
  delete: rule(
    'delete',
    'DELETE is 200, also if the object does not exist, and the object is gone.',
    [clauses.delete],
    'Deletes an object twice and reads it.',
    needsNamespace,
  ),
  createdUri: rule(
    'created-uri',
    '201 has the URI of the object, where it is shown.',
    [clauses.createdUri],
    'Reads the URI in the result of a creation.',
    'nothing was answered with 201',
  ),
  taskUri: rule(
    'task-uri',
    '202 has the URI of the task, where it is polled with 200.',
    [clauses.taskUri],
    'Reads the URI in the result of each 202. A 202 without a header Location is noted.',
    'nothing was answered with 202',
  ),
  taskCancel: rule(
    'task-cancel',
    'A task that has not ended is cancelled by its URI.',
    [clauses.taskUri],
    'Where a creation is answered with 202, submits another one and sends POST to the action `cancel` of the URI of its task at once: it is 200 or 202, and the task is polled with 200 after it. The standard does not name the request that cancels: 404 and 405 are noted, and so is 400 if the object was created before.',
    'no task was cancelled: nothing was created with 202, or tasks have no action cancel',
  ),
  taskDelete: rule(
    'task-delete',
    'A task is deleted by its URI.',
    [clauses.taskUri, clauses.delete],
    'Deletes the first task of a collection twice after its work is done, and polls it: DELETE is 200 or 202 each time, and the task is not shown any more. A refusal (401, 403) is noted.',
    'nothing was answered with 202',
  ),
  objectNames: rule(
    'object-names',
    'The segment of an object is its name, percent-encoded.',
    [clauses.objectNames],
    'Creates an object with a space and a letter outside ASCII in its name, and reads it under that name. That a service does not take such names is noted.',
    needsNamespace,
  ),
  precedence: rule(
    'path-precedence',
    'The path takes precedence over the body.',
    [clauses.precedence],
    'Creates an object by PUT to its own path with another name in the body. A refusal (400) is noted.',
    'no object can be created by PUT to its own path',
  ),
} as const satisfies Readonly<Record<string, LiveRule>>;

export type LiveRuleName = keyof typeof liveRules;

/** Collects what the checks find. */
export class Findings {
  readonly #checked = new Set<LiveRuleName>();
  readonly #findings = new Map<LiveRuleName, ReportedFinding[]>();
  readonly #notes = new Map<LiveRuleName, Map<string, string>>();

  /** @param problem undefined: the rule is kept here. */
  check(name: LiveRuleName, exchange: Exchange, problem: string | undefined): void {
    this.#checked.add(name);
    if (problem === undefined) return;
    const { method, path, status } = exchange;
    const list = this.#findings.get(name) ?? [];
    this.#findings.set(name, list);
    const place = `${method} ${path}`;
    if (list.some((finding) => finding.place === place && finding.message === problem)) return;
    list.push({ place, message: problem, details: { method, path, status } });
  }

  /** `kind`: of notes of the same kind, the first is kept. */
  note(name: LiveRuleName, text: string, kind = text): void {
    const notes = this.#notes.get(name) ?? new Map<string, string>();
    this.#notes.set(name, notes);
    if (!notes.has(kind)) notes.set(kind, text);
  }

  report(): ReportedRule[] {
    return Object.entries(liveRules).map(([key, { id, title, clauses: cited, skipped }]) => {
      const name = key as LiveRuleName;
      return {
        id,
        title,
        clauses: cited,
        findings: this.#findings.get(name) ?? [],
        notes: [...(this.#notes.get(name)?.values() ?? [])],
        ...(this.#checked.has(name) ? {} : { skipped }),
      };
    });
  }
}
