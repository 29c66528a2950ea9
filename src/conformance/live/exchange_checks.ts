// What can be seen in any response (rest-standard A3, A4, A5), whatever was asked.
import { allowedStatuses } from '../clauses.ts';
import { fieldsOf, isObject } from '../document/nodes.ts';
import { isFieldName } from '../field_names.ts';
import { extensionHeader, isStandardHeader } from '../lint/standard_headers.ts';
import type { Exchange } from './calls.ts';
import type { Findings } from './rules.ts';

const shownCharacters = 80;

/** The object with code, message and result, if the response has one. */
export function envelopeOf({
  json,
}: Exchange): { code: string; message: string; result: Readonly<Record<string, unknown>> } | undefined {
  const { code, message, result } = fieldsOf(json);
  return typeof code === 'string' && typeof message === 'string' && isObject(result)
    ? { code, message, result }
    : undefined;
}

function envelopeProblem({ text, json }: Exchange): string | undefined {
  if (!isObject(json)) return `the body is not a JSON object: ${text.slice(0, shownCharacters)}`;
  const { code, message, result, ...others } = json;
  const missing = Object.entries({ code, message, result }).filter(([, value]) => value === undefined);
  if (missing.length > 0) return `the body lacks ${missing.map(([name]) => `"${name}"`).join(', ')}`;
  if (typeof code !== 'string' || typeof message !== 'string') return 'code and message must be strings';
  if (!isObject(result)) return 'result must be an object';
  const further = Object.keys(others);
  return further.length > 0 ? `the body has further fields: ${further.slice(0, 5).join(', ')}` : undefined;
}

function codeProblem(status: number, { code, message }: { code: string; message: string }): string | undefined {
  const isSuccess = status >= 200 && status < 300;
  if (isSuccess && (code !== '0' || message !== 'OK'))
    return `${status} has the code "${code}" and the message "${message.slice(0, shownCharacters)}"; a success has "0" and "OK"`;
  if (!isSuccess && code === '0') return `${status} has the code "0", which is that of a success`;
  return !isSuccess && message.trim() === '' ? `${status} has no message` : undefined;
}

/** The names of the fields of a result and of the records in its lists. */
function fieldNames(result: Readonly<Record<string, unknown>>): string[] {
  const lists = Object.values(result).filter((value) => Array.isArray(value));
  return [
    ...Object.keys(result),
    ...lists
      .flat()
      .filter(isObject)
      .flatMap((record) => Object.keys(record)),
  ];
}

export function checkExchange(exchange: Exchange, findings: Findings): void {
  const { status, text, headers } = exchange;
  const isAllowed = allowedStatuses.has(status);
  findings.check('statusClosed', exchange, isAllowed ? undefined : `the status is ${status}, outside the closed set`);
  const isSuccess = status === 200 || status === 201 || status === 202;
  if (isSuccess) findings.check('successBody', exchange, text === '' ? `${status} has no body` : undefined);
  if (text !== '') {
    findings.check('envelope', exchange, envelopeProblem(exchange));
    const envelope = envelopeOf(exchange);
    if (envelope) {
      findings.check('successCode', exchange, codeProblem(status, envelope));
      const wrong = [...new Set(fieldNames(envelope.result))].filter((name) => !isFieldName(name));
      findings.check(
        'camelCase',
        exchange,
        wrong.length > 0 ? `fields are not camelCase: ${wrong.slice(0, 5).join(', ')}` : undefined,
      );
    }
  }
  const own = [...headers.keys()].filter((name) => !isStandardHeader(name) && !extensionHeader.test(name));
  findings.check(
    'headerNames',
    exchange,
    own.length > 0 ? `headers are neither standard nor x-service-{name}: ${own.join(', ')}` : undefined,
  );
}
