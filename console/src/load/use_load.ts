// The load of a file while its page is open: sends the file at once, infers its columns, runs the task. Leaving the page aborts the upload.
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
  /** The columns were not found; a change of how the file is read may help. */
  | { readonly kind: 'unreadable' }
  | { readonly kind: 'ready'; readonly inferred: InferredFile }
  | { readonly kind: 'loading'; readonly inferred: InferredFile; readonly task: Task; readonly record: TaskRecord }
  | { readonly kind: 'loaded'; readonly target: Target; readonly isNew: boolean; readonly result: LoadResult };

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

  // biome-ignore lint/correctness/useExhaustiveDependencies: another attempt repeats what failed
  useEffect(() => {
    const controller = new AbortController();
    leaving.current = controller;
    const { signal } = controller;
    const run = async () => {
      setError(undefined);
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
      onInferred(inferred);
      setStage({ kind: 'ready', inferred });
    };
    run().catch((failure: unknown) => {
      if (signal.aborted) return;
      setError(failure);
      setStage({ kind: 'unreadable' });
    });
    return () => controller.abort();
  }, [file, csv, attempt]);

  const start = async (target: Target, content: LoadContent, { errorsMax, label }: StartOptions) => {
    const signal = leaving.current?.signal;
    if (stage.kind !== 'ready' || upload.current === undefined || !signal) return;
    const { inferred } = stage;
    setError(undefined);
    try {
      const started = await startLoad(target, upload.current, content, { csv, errorsMax, label, signal });
      const onProgress = (record: TaskRecord) => setStage({ kind: 'loading', inferred, task: started.task, record });
      const result = await endOfLoad(started, onProgress, signal);
      setStage({ kind: 'loaded', target, isNew: content.kind === 'new', result });
      objectsStore.refresh();
      await Promise.all(
        ['databases', 'tables'].map((category) => queryClient.invalidateQueries({ queryKey: [category] })),
      );
    } catch (failure) {
      if (signal.aborted) return;
      setError(failure);
      setStage({ kind: 'ready', inferred });
    }
  };
  const retry = stage.kind === 'ready' ? undefined : () => setAttempt((n) => n + 1);
  return { stage, error, setError, csv, readAgain: setCsv, start, retry };
}
