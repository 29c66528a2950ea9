// A page for each code: its status, its meaning, what a client does, an example of the response, and which operations send it. Generated from
// src/standard/codes.ts and the declarations.
import { type Code, codes } from '../../src/standard/codes.ts';
import type { Endpoint } from '../../src/standard/endpoint.ts';
import { failureResponse } from '../../src/standard/envelope.ts';
import { Failure } from '../../src/standard/failure.ts';
import { ownCodesOf, sharedCodes } from '../../src/standard/openapi/endpoint_codes.ts';
import { code, fence, type Page, pretty, table } from './page.ts';
import { endpoints, failuresOfTask } from './reference.ts';

export const codeNames = Object.keys(codes) as readonly Code[];

export const codePages = (): Page[] =>
  codeNames.map((name) => ({
    path: `codes/${name}`,
    label: name,
    markdown: pageOf(name),
    source: `docs/codes/${name}.md`,
  }));

const outcomes = {
  notApplied: 'nothing was changed and nothing will be',
  unknown: 'the request may have been applied, or may still be',
} as const;

function pageOf(name: Code): string {
  const { status, meaning, client, outcome } = codes[name];
  const facts = [
    ['status', String(status)],
    ['what to do', client],
    ['the same request again', retryText(name)],
    ...(outcome === undefined
      ? []
      : [['outcome', `${code(outcome)}: ${outcomes[outcome]}, unless the response says otherwise`]]),
    ['in the client', `\`errors.${name}\``],
  ];
  return [
    `# ${name}`,
    meaning,
    table(['', ''], facts),
    '## Example',
    fence('http', exampleOf(name)),
    'The `message` says more about the request at hand; `result` can have more fields.',
    '## Operations that send it, or whose task fails with it',
    ...sendersOf(name),
    '[All codes](../codes.md)',
  ].join('\n\n');
}

function retryText(name: Code): string {
  const { status, outcome } = codes[name];
  if (status < 500) return 'fails again until the request, or what it refers to, is changed';
  if (status === 500) return 'may succeed';
  return outcome === 'unknown'
    ? 'may succeed after `Retry-After` seconds; send it with its idempotency key, so that it is applied once'
    : 'may succeed after `Retry-After` seconds';
}

/** The actual response, without the headers that every response has. */
function exampleOf(name: Code): string {
  const { status, meaning } = codes[name];
  const { headers, body } = failureResponse(
    new Failure(name, meaning, name === 'METHOD_NOT_ALLOWED' ? { allow: ['GET'] } : {}),
  );
  const shown = Object.entries(headers).map(([header, value]) => `${header}: ${value}`);
  return [`HTTP/1.1 ${status}`, ...shown, '', pretty(JSON.parse(body.join('')))].join('\n');
}

const shared: readonly (readonly [readonly Code[], string])[] = [
  [sharedCodes.always, 'Every operation can send it.'],
  [sharedCodes.withBody, 'Every operation that takes a body can send it.'],
  [sharedCodes.withoutBody, 'Every operation that takes no body can send it.'],
  [sharedCodes.withIdempotencyKey, 'Every operation that accepts an idempotency key can send it.'],
];

const isOfTask = (name: Code, { task }: Endpoint): boolean => failuresOfTask(task).includes(name);

function sendersOf(name: Code): string[] {
  const general = shared.filter(([names]) => names.includes(name)).map(([, text]) => text);
  const own = endpoints.filter(({ endpoint }) => ownCodesOf(endpoint).includes(name) || isOfTask(name, endpoint));
  const links = own.map(({ id, href }) => `- [${code(id)}](../${href.replace('#', '.md#')})`).join('\n');
  if (links !== '') return [...general, links];
  return general.length > 0
    ? general
    : ['No operation by itself: it is the error of a task, of a file link, or of the connection.'];
}
