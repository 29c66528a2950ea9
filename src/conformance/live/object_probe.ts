// What the probes of objects and of tasks share: what they run with, and how they find an object.
import type { Calls, Exchange } from './calls.ts';
import { envelopeOf } from './exchange_checks.ts';
import type { Findings } from './rules.ts';
import type { Subject } from './subjects.ts';
import { uriIn } from './uris.ts';

/** What has to be deleted at the end. */
export interface CreatedObjects {
  /** The paths of objects that may exist. */
  readonly paths: Set<string>;
  /** Of these, the ones that may still come to be: no response was received (`sent`), or a task was accepted. */
  readonly pending: Map<string, 'sent' | 'accepted'>;
}

export interface ObjectProbe {
  readonly subject: Subject;
  readonly calls: Calls;
  readonly findings: Findings;
  /** A new name in the namespace. */
  newName(suffix?: string): string;
  readonly created: CreatedObjects;
  readonly taskTimeoutMs: number;
  /** What was done with tasks of this collection. */
  readonly tasks: { isDeletionProbed: boolean };
}

export const isSuccess = ({ status }: Exchange): boolean => status >= 200 && status < 300;
/** The status, and the code and message of a failure. */
export const outcomeOf = (exchange: Exchange): string => {
  const envelope = envelopeOf(exchange);
  return envelope && envelope.code !== '0'
    ? `${exchange.status} ${envelope.code} (${envelope.message})`
    : String(exchange.status);
};

export const objectPath = ({ subject }: ObjectProbe, name: string): string =>
  `${subject.collection}/${encodeURIComponent(name)}`;

export const exists = async (probe: ObjectProbe, name: string): Promise<boolean> =>
  isSuccess(await probe.calls.send({ method: 'GET', path: objectPath(probe, name) }));

/** The path of the URI in a result. A note if it is elsewhere. */
export function uriPath(
  { calls, findings }: ObjectProbe,
  exchange: Exchange,
  rule: 'createdUri' | 'taskUri',
): string | undefined {
  const uri = uriIn(envelopeOf(exchange)?.result ?? exchange.json);
  const path = uri === undefined ? undefined : calls.pathOf(uri);
  const what = rule === 'createdUri' ? '201' : '202';
  findings.check(rule, exchange, uri === undefined ? `the body of ${what} has no URI` : undefined);
  if (uri !== undefined && path === undefined) findings.note(rule, `${uri} is at another origin, which is not called`);
  return path;
}
