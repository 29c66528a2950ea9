// A failure: what happened, its code, and what to do, see failure_advice.ts.
import { CircleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import { TabulariumError } from '../../../src/client/index.ts';
import { codes } from '../../../src/standard/codes.ts';
import { Button } from './button.tsx';
import styles from './error_panel.module.css';
import { userAdvice } from './failure_advice.ts';

/** Codes that the client gives itself; see src/client/errors.ts. */
const clientAdvice: Readonly<Record<string, string>> = {
  NO_ANSWER: 'Check that the server runs and that this computer is connected, then try again.',
  NO_ENVELOPE: 'Something between this page and the server answered in its place. Check the proxy.',
  TASK_CANCELLED: 'It was cancelled; run it again if that was not intended.',
};

/** What to do; undefined for an error that is not the service's. */
export function adviceOf(error: unknown): string | undefined {
  if (!(error instanceof TabulariumError)) return undefined;
  return clientAdvice[error.code] ?? userAdvice(error.code, error.result);
}

/** The code leads to its page of the documentation; those of the client have none. In a tab of its own, so that no text of this page is lost. */
function CodeLink({ code }: { readonly code: string }) {
  if (!Object.hasOwn(codes, code)) return <code>{code}</code>;
  return (
    <a href={`/console/docs/codes/${code}`} target="_blank" rel="noreferrer" title="What this code means">
      <code>{code}</code>
    </a>
  );
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** What stands between backticks is code. */
const withCode = (text: string): ReactNode[] =>
  // biome-ignore lint/suspicious/noArrayIndexKey: the parts of one sentence do not move
  text.split('`').map((part, i) => (i % 2 === 0 ? part : <code key={i}>{part}</code>));

interface ErrorPanelProps {
  /** What to do, where the page knows more than the table of codes. */
  readonly advice?: string | undefined;
  readonly error: unknown;
  /** What failed, as in `The tables could not be listed`. */
  readonly title?: string;
  readonly onRetry?: (() => unknown) | undefined;
  readonly children?: ReactNode;
}

export function ErrorPanel({ error, title, advice = adviceOf(error), onRetry, children }: ErrorPanelProps) {
  const isOurs = error instanceof TabulariumError;
  return (
    <div role="alert" className={styles.panel}>
      <CircleAlert aria-hidden />
      <div className={styles.text}>
        {title !== undefined && <strong>{title}</strong>}
        <p className={styles.message}>{messageOf(error)}</p>
        {advice !== undefined && <p className={styles.advice}>{withCode(advice)}</p>}
        {isOurs && (
          <p className={styles.details}>
            <CodeLink code={error.code} />
            {error.requestId !== undefined && (
              <>
                {' · request '}
                <code>{error.requestId}</code>
              </>
            )}
          </p>
        )}
        {children}
        {onRetry && (
          <div>
            <Button size="small" onClick={() => onRetry()}>
              Try again
            </Button>
          </div>
        )}
      </div>
    </div>
  );
}
