// A client that holds each answer to the standard, also while something fails: a declared code with its status, and with each 5xx whether the
// request was applied.
import { setTimeout as pause } from 'node:timers/promises';
import { codes } from '../../../src/standard/codes.ts';
import { deadlineFromNow } from '../../deadline.ts';
import { undeclared } from '../../declared_codes.ts';
import type { Random } from '../../random.ts';
import { type Answer, Api, isAcknowledged, type Request } from '../injection/api.ts';

/** How long a 503 may last after the end of its cause, for a quiet machine. */
export const clearedMs = 30_000;
const repeatPauseMs = 100;

export class CheckedApi extends Api {
  /** What was wrong with answers. */
  readonly problems: string[] = [];

  override async send(request: Request, answerMs?: number, onSent?: () => void): Promise<Answer> {
    const answer = await super.send(request, answerMs, onSent);
    const problem = problemOf(answer) ?? undeclared(request.method, request.path, answer.code);
    if (answer.status !== 0 && problem !== undefined)
      this.problems.push(`${request.method} ${request.path}: ${problem}: ${JSON.stringify(answer).slice(0, 500)}`);
    return answer;
  }
}

/** For reads after a fault: asks again while the answer is a 503 or is lost, for as long as that may be so. */
export class PatientApi extends CheckedApi {
  override async send(request: Request, answerMs?: number): Promise<Answer> {
    const isOver = deadlineFromNow(clearedMs);
    for (;;) {
      const answer = await super.send(request, answerMs);
      if ((answer.status !== 0 && answer.status !== 503) || isOver()) return answer;
      await pause(repeatPauseMs);
    }
  }
}

/** For requests under faults: longer than a server waits for anything before it refuses. */
const keyedAnswerMs = 20_000;

/** Sends a request with its key through any server, again until it is acknowledged, refused for good, or the time is over. */
export async function certainAnswer(apis: readonly CheckedApi[], request: Request, random: Random): Promise<Answer> {
  const isOver = deadlineFromNow(clearedMs + keyedAnswerMs);
  for (;;) {
    const answer = await random.pick(apis).send(request, keyedAnswerMs);
    const isRefused = answer.status !== 0 && answer.status !== 503;
    if (isAcknowledged(answer) || isRefused || isOver()) return answer;
    await pause(repeatPauseMs);
  }
}

/** How a task has ended, by its record; undefined if it has not. */
export function endedState(record: object): string | undefined {
  const { state, endedAt } = record as { readonly state?: string; readonly endedAt?: string | null };
  return typeof endedAt === 'string' ? state : undefined;
}

function problemOf({ status, code, result }: Answer): string | undefined {
  if (code === '0') return undefined;
  if (!Object.hasOwn(codes, code)) return 'no code';
  if (codes[code as keyof typeof codes].status !== status) return 'a status that is not that of the code';
  if (status === 500) return 'a defect';
  if (status > 500 && !['notApplied', 'unknown'].includes(String(result.outcome))) return 'no outcome';
  return undefined;
}
