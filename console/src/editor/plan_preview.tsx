// The plan of the statement that Run would run, while the pointer rests on the button.
import { PreviewCard } from '@base-ui/react/preview-card';
import { useQuery } from '@tanstack/react-query';
import { type ReactElement, useState } from 'react';
import { client } from '../app/session.ts';
import type { Statement } from '../results/run/messages.ts';
import { CodeBlock } from '../ui/data/code_block.tsx';
import { adviceOf, messageOf } from '../ui/error_panel.tsx';
import { Loading } from '../ui/feedback.tsx';
import { Dialog } from '../ui/overlays/dialog.tsx';
import styles from './plan_preview.module.css';

const openMs = 700;
const freshMs = 30_000;

export function explain({ sql, place, parameters }: Statement, signal: AbortSignal) {
  const { catalog, database } = place;
  const target = client.catalogs(catalog);
  const body = { sql, ...(parameters == null ? {} : { parameters: parameters as unknown[] }) };
  return database === undefined
    ? target.explain(body, { signal })
    : target.databases(database).explain(body, { signal });
}

interface PlanPreviewProps {
  /** Read when the preview opens; undefined: there is no statement. */
  readonly statement: () => Statement | undefined;
  /** Whose error is shown below the editor: its plan would cover it. */
  readonly failed: Statement | undefined;
  /** It does not open: the pointer rests on the button for another reason. */
  readonly isDisabled: boolean;
  readonly children: ReactElement;
}

export function PlanPreview({ statement, failed, isDisabled, children }: PlanPreviewProps) {
  const [isOpen, setIsOpen] = useState(false);
  const onOpenChange = (open: boolean): void =>
    setIsOpen(open && !isDisabled && (failed === undefined || statement()?.sql !== failed.sql));
  return (
    <PreviewCard.Root open={isOpen && !isDisabled} onOpenChange={onOpenChange}>
      <PreviewCard.Trigger render={children} delay={openMs} />
      <PreviewCard.Portal>
        <PreviewCard.Positioner side="bottom" align="start" sideOffset={6} className={styles.positioner}>
          <PreviewCard.Popup className={styles.popup}>
            <Preview statement={statement()} />
          </PreviewCard.Popup>
        </PreviewCard.Positioner>
      </PreviewCard.Portal>
    </PreviewCard.Root>
  );
}

interface PlanDialogProps {
  readonly statement: Statement;
  readonly onClose: () => void;
}

/** The same for those who do not hover. */
export function PlanDialog({ statement, onClose }: PlanDialogProps) {
  return (
    <Dialog isOpen size="wide" title="Plan" onClose={onClose}>
      <Preview statement={statement} />
    </Dialog>
  );
}

function Preview({ statement }: { readonly statement: Statement | undefined }) {
  const { data, error } = useQuery({
    queryKey: ['explain', statement],
    enabled: statement !== undefined,
    staleTime: freshMs,
    queryFn: ({ signal }) => explain(statement as Statement, signal),
  });
  if (!statement) return <p>There is no statement at the cursor.</p>;
  if (error)
    return (
      <p className={styles.error}>
        {messageOf(error)} {adviceOf(error)}
      </p>
    );
  return data ? <CodeBlock label="plan" code={data.plan} /> : <Loading label="Explaining…" />;
}
