// The load of a file while its page is open: sends the file at once, infers its columns, runs the task. Leaving the page aborts the upload.
// A page that is shown again after a sign-in continues where it was.
import { useEffect, useRef, useState } from 'react';
import type { Task, TaskRecord, TransferProgress, UploadRecord } from '../../../src/client/index.ts';
import { queryClient } from '../app/queries.ts';
import { client } from '../app/session.ts';
import { objectsStore } from '../explorer/objects_store.ts';
import {
  type CsvOptions,
  endOfLoad,
  type InferredFile,
  inferColumns,
  type LoadContent,
  type LoadResult,
  type Place,
  type StartedLoad,
  startLoad,
  type Target,
} from './load_session.ts';
import { otherEncoding } from './text_encoding.ts';

/** Progress is shown after each part. */
const partBytes = 2 * 1024 * 1024;

type Stage =
  | { readonly kind: 'empty' }
  | { readonly kind: 'uploading'; readonly progress: number }
  | { readonly kind: 'inferring' }
  /** The columns were not found; a change of how the file is read may help, or another table. `isSent`: the server has the file. */
  | { readonly kind: 'unreadable'; readonly isSent: boolean }
  | { readonly kind: 'ready'; readonly inferred: InferredFile }
  | { readonly kind: 'loading'; readonly inferred: InferredFile; readonly task: Task; readonly record: TaskRecord }
  | { readonly kind: 'loaded'; readonly target: Target; readonly isNew: boolean; readonly result: LoadResult };

/** A load whose task has not ended, as far as is known. */
interface RunningLoad {
  readonly started: StartedLoad;
  readonly target: Target;
  readonly isNew: boolean;
  readonly inferred: InferredFile;
}

async function followToEnd(
  { started, target, isNew, inferred }: RunningLoad,
  onStage: (stage: Stage) => void,
  signal: AbortSignal,
): Promise<void> {
  const onProgress = (record: TaskRecord) => onStage({ kind: 'loading', inferred, task: started.task, record });
  const result = await endOfLoad(started, onProgress, signal);
  onStage({ kind: 'loaded', target, isNew, result });
  objectsStore.refresh();
  await Promise.all(['databases', 'tables'].map((category) => queryClient.invalidateQueries({ queryKey: [category] })));
}

interface StartOptions {
  readonly errorsMax: number;
  readonly label: string;
}

export function useLoad(
  file: File,
  place: Place,
  table: string | undefined,
  onInferred: (inferred: InferredFile) => void,
) {
  const [stage, setStage] = useState<Stage>({ kind: 'empty' });
  const [error, setError] = useState<unknown>();
  const [csv, setCsv] = useState<CsvOptions>();
  const [attempt, setAttempt] = useState(0);
  const upload = useRef<UploadRecord>(undefined);
  const leaving = useRef<AbortController>(undefined);
  const running = useRef<RunningLoad>(undefined);
  /** How the file was read when its columns were found, which the user may have corrected since. */
  const found = useRef<{ readonly csv: CsvOptions | undefined; readonly attempt: number }>(undefined);

  const follow = async (load: RunningLoad, signal: AbortSignal) => {
    running.current = load;
    try {
      await followToEnd(load, setStage, signal);
    } finally {
      if (!signal.aborted) running.current = undefined;
    }
  };

  // biome-ignore lint/correctness/useExhaustiveDependencies: another attempt repeats what failed
  useEffect(() => {
    const controller = new AbortController();
    leaving.current = controller;
    const { signal } = controller;
    const read = async () => {
      setStage({ kind: 'uploading', progress: 0 });
      const encoding = csv ? undefined : await otherEncoding(file);
      if (signal.aborted) return;
      if (encoding) {
        setCsv({ encoding });
        return;
      }
      const onProgress = ({ bytes, total = file.size }: TransferProgress) =>
        setStage({ kind: 'uploading', progress: total === 0 ? 1 : bytes / total });
      upload.current ??= await client.upload(file, { onProgress, signal, partBytes });
      setStage({ kind: 'inferring' });
      const inferred = await inferColumns(place, table, upload.current.uploadId, csv, signal);
      found.current = { csv, attempt };
      onInferred(inferred);
      setStage({ kind: 'ready', inferred });
    };
    const fail = (failure: unknown, next: Stage) => {
      if (signal.aborted) return;
      setError(failure);
      setStage(next);
    };
    const load = running.current;
    const isRead = found.current?.csv === csv && found.current?.attempt === attempt;
    if (load) follow(load, signal).catch((failure) => fail(failure, { kind: 'ready', inferred: load.inferred }));
    else if (!isRead) {
      setError(undefined);
      read().catch((failure) => fail(failure, { kind: 'unreadable', isSent: upload.current !== undefined }));
    }
    return () => controller.abort();
  }, [file, csv, attempt]);

  const start = async (target: Target, content: LoadContent, { errorsMax, label }: StartOptions) => {
    const signal = leaving.current?.signal;
    if (stage.kind !== 'ready' || upload.current === undefined || !signal) return;
    const { inferred } = stage;
    setError(undefined);
    try {
      const started = await startLoad(target, upload.current, content, { csv, errorsMax, label, signal });
      await follow({ started, target, isNew: content.kind === 'new', inferred }, signal);
    } catch (failure) {
      if (signal.aborted) return;
      setError(failure);
      setStage({ kind: 'ready', inferred });
    }
  };
  const retry = stage.kind === 'ready' ? undefined : () => setAttempt((n) => n + 1);
  return { stage, error, setError, csv, readAgain: setCsv, start, retry };
}
