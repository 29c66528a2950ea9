// A client that holds each answer to the standard, also while something fails: a declared code with its status, and with each 5xx whether the
// request was applied.
import { codes } from '../../../src/standard/codes.ts';
import { type Answer, Api, type Request } from '../injection/api.ts';

export class CheckedApi extends Api {
  /** What was wrong with answers. */
  readonly problems: string[] = [];

  override async send(request: Request, answerMs?: number, onSent?: () => void): Promise<Answer> {
    const answer = await super.send(request, answerMs, onSent);
    const problem = problemOf(answer);
    if (problem !== undefined)
      this.problems.push(`${request.method} ${request.path}: ${problem}: ${JSON.stringify(answer).slice(0, 500)}`);
    return answer;
  }
}

function problemOf({ status, code, result }: Answer): string | undefined {
  if (status === 0 || code === '0') return undefined;
  if (!Object.hasOwn(codes, code)) return 'a code that is not declared';
  if (codes[code as keyof typeof codes].status !== status) return 'a status that is not that of the code';
  if (status === 500) return 'a defect';
  if (status > 500 && !['notApplied', 'unknown'].includes(String(result.outcome))) return 'no outcome';
  return undefined;
}
