// Converts outcomes and failures to status, headers and body (rest-standard A3, A4). Records may be serialized in advance, so that a
// frequently read object is not serialized for each request.

import { codes, type FailureStatus, type SuccessStatus } from './codes.ts';
import type { Deprecation, Outcome } from './endpoint.ts';
import { type Failure, outcomeOf } from './failure.ts';
import { type BodyPiece, envelopeHead as head, JsonText, ReadyRecord, type RecordBody } from './record_body.ts';
import { type RecordVersion, versionOf } from './record_version.ts';

export interface ApiResponse {
  readonly status: SuccessStatus | FailureStatus;
  readonly headers: Readonly<Record<string, string>>;
  /** Pieces of the JSON body. */
  readonly body: readonly BodyPiece[];
  /** The total size of the pieces, if known. */
  readonly bodyBytes?: number;
}

const successStatus: Record<Outcome['outcome'], SuccessStatus> = {
  found: 200,
  listed: 200,
  created: 201,
  updated: 200,
  deleted: 200,
  accepted: 202,
  done: 200,
};

const noHeaders = {};

const tagged = (version: RecordVersion | undefined): ApiResponse['headers'] =>
  version ? { ETag: version.etag } : noHeaders;

function pieces(body: RecordBody): readonly BodyPiece[] {
  if (body instanceof ReadyRecord) return [body.recordText];
  return body instanceof JsonText ? body.pieces : [JSON.stringify(body)];
}

/** `listKey` returns the field of a list's result, the category in camelCase; `sign` creates the page token for a key. */
export function successResponse(outcome: Outcome, listKey: () => string, sign: (key: string) => string): ApiResponse {
  const status = successStatus[outcome.outcome];
  switch (outcome.outcome) {
    case 'found':
    case 'updated': {
      const { record } = outcome;
      if (record instanceof ReadyRecord) {
        return { status, headers: tagged(record.version), body: record.body, bodyBytes: record.bodyBytes };
      }
      return { status, headers: tagged(versionOf(record)), body: [head, ...pieces(record), '}'] };
    }
    case 'done': {
      const { result } = outcome;
      const version = result instanceof ReadyRecord ? result.version : versionOf(result);
      return { status, headers: tagged(version), body: [head, ...pieces(result), '}'] };
    }
    case 'listed': {
      const body: BodyPiece[] = [`${head}{"${outcome.field ?? listKey()}":[`];
      outcome.items.forEach((item, i) => {
        if (i > 0) body.push(',');
        body.push(...pieces(item));
      });
      body.push(outcome.next === undefined ? ']}}' : `],"nextPageToken":${JSON.stringify(sign(outcome.next))}}}`);
      return { status, headers: noHeaders, body };
    }
    case 'created': {
      const record = JSON.stringify({ ...outcome.record, created: outcome.created });
      return {
        status,
        headers: { Location: outcome.uri, ...tagged(versionOf(outcome.record)) },
        body: [head, record, '}'],
      };
    }
    case 'deleted':
      return { status, headers: noHeaders, body: [`${head}{"deleted":${outcome.deleted}}}`] };
    case 'accepted':
      return { status, headers: { Location: outcome.uri }, body: [head, JSON.stringify(outcome.task), '}'] };
  }
}

/** The response of a deprecated endpoint, with the headers of RFC 9745 and RFC 8594. */
export function withDeprecation(response: ApiResponse, { since, sunset }: Deprecation): ApiResponse {
  const Deprecation = `@${Date.parse(since) / 1000}`;
  const Sunset = new Date(sunset).toUTCString();
  return { ...response, headers: { ...response.headers, Deprecation, Sunset } };
}

/** The challenge to requests of pages: to one of `Basic`, browsers respond with a dialog of their own. */
export const bearerChallenge = 'Bearer realm="tabularium"';

/** A METHOD_NOT_ALLOWED failure must have `allow` in its result. */
export function failureResponse(failure: Failure): ApiResponse {
  const { status, retryAfterSeconds } = codes[failure.code];
  const headers: Record<string, string> = {};
  const retryAfter = failure.retryAfterSeconds ?? retryAfterSeconds;
  if (retryAfter !== undefined) headers['Retry-After'] = String(Math.ceil(retryAfter));
  if (status === 401) headers['WWW-Authenticate'] = `${bearerChallenge}, Basic realm="tabularium", charset="UTF-8"`;
  if (failure.code === 'METHOD_NOT_ALLOWED') headers.Allow = (failure.result.allow as string[]).join(', ');
  const outcome = outcomeOf(failure);
  const result = outcome === undefined ? failure.result : { ...failure.result, outcome };
  const body = JSON.stringify({ code: failure.code, message: failure.message, result });
  return { status, headers, body: [body] };
}
