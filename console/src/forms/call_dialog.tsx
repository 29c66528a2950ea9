// A form that makes one call: its fields, the equivalent call, and what becomes of it. A call that becomes a task is watched until
// the task ends. The parent renders it while it is open.
import { type ReactNode, type SubmitEvent, useId, useRef, useState } from 'react';
import { type CallOptions, type Client, Task, type TaskRecord } from '../../../src/client/index.ts';
import { client } from '../app/session.ts';
import { Button } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Progress } from '../ui/feedback.tsx';
import { Dialog } from '../ui/overlays/dialog.tsx';
import { showToast } from '../ui/overlays/toasts.tsx';
import styles from './call_dialog.module.css';
import { CallPreview } from './call_preview.tsx';

interface CallDialogProps<T> {
  readonly title: string;
  readonly description?: ReactNode;
  readonly children?: ReactNode;
  /** Makes exactly one call; called with the client for submitting, and to describe the call. */
  readonly call: (client: Client, options?: CallOptions) => PromiseLike<T>;
  readonly submitLabel: string;
  readonly isDangerous?: boolean;
  /** Whether the fields are filled in. */
  readonly isComplete?: boolean;
  readonly secret?: string | undefined;
  /** Shown when it is done, as in `Table created`. */
  readonly doneText: string;
  readonly onClose: () => void;
  /** Called with the result, or that of the task. */
  readonly onDone: (result: T) => void;
}

type Progressing = Pick<TaskRecord, 'progress' | 'progressText'> | undefined;

export function CallDialog<T>(props: CallDialogProps<T>) {
  const { title, description, children, call, submitLabel, isDangerous = false, isComplete = true } = props;
  const { secret, doneText, onClose, onDone } = props;
  const form = useId();
  const { submit, cancel, isRunning, task, error } = useCall(call, (result) => {
    showToast(doneText);
    onDone(result);
    onClose();
  });
  const onSubmit = (event: SubmitEvent): void => {
    event.preventDefault();
    if (isComplete && !isRunning) void submit();
  };
  return (
    <Dialog
      title={title}
      description={description}
      isOpen
      onClose={() => {
        cancel();
        onClose();
      }}
      size="wide"
      actions={
        <>
          <Button onClick={isRunning ? cancel : onClose}>Cancel</Button>
          <Button
            type="submit"
            form={form}
            look={isDangerous ? 'danger' : 'primary'}
            disabled={!isComplete || isRunning}
          >
            {submitLabel}
          </Button>
        </>
      }
    >
      <form id={form} className={styles.form} onSubmit={onSubmit}>
        {children}
      </form>
      {isRunning && (
        <div className={styles.progress}>
          <Progress label={title} value={task?.progress ?? null} />
          {task?.progressText && <p>{task.progressText}</p>}
        </div>
      )}
      {error !== undefined && <ErrorPanel error={error} title="Nothing was confirmed" />}
      <CallPreview call={call} secret={secret} />
    </Dialog>
  );
}

/** A call in flight, which may become a task; cancelling cancels the task. */
function useCall<T>(call: (client: Client, options?: CallOptions) => PromiseLike<T>, onDone: (result: T) => void) {
  const [isRunning, setIsRunning] = useState(false);
  const [task, setTask] = useState<Progressing>();
  const [error, setError] = useState<unknown>();
  const running = useRef<{ readonly abort: AbortController; task?: Task }>(undefined);
  const submit = async (): Promise<void> => {
    const current: { readonly abort: AbortController; task?: Task } = { abort: new AbortController() };
    running.current = current;
    setIsRunning(true);
    setError(undefined);
    try {
      const answer = await call(client, { signal: current.abort.signal });
      if (answer instanceof Task) {
        current.task = answer;
        onDone((await answer.done({ onProgress: setTask })) as T);
      } else onDone(answer);
    } catch (failure) {
      if (!current.abort.signal.aborted) setError(failure);
    } finally {
      setIsRunning(false);
      setTask(undefined);
    }
  };
  const cancel = (): void => {
    const { abort, task: started } = running.current ?? {};
    if (started) void started.cancel().catch(setError);
    else abort?.abort();
  };
  return { submit, cancel, isRunning, task, error };
}
