// One record that is being read: a wait, a failure with what to do, or the page of the record.
import type { ReactNode } from 'react';
import { errors } from '../../../src/client/index.ts';
import { useOpenRoom } from '../app/room_path.tsx';
import { Button } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Loading } from '../ui/feedback.tsx';
import { PageBody, Toolbar } from '../ui/layout/page.tsx';

interface Read<T> {
  readonly data: T | undefined;
  readonly error: unknown;
  readonly refetch: () => unknown;
}

interface ReadingProps<T> {
  readonly read: Read<T>;
  readonly what: string;
  /** Shown to those who may not read the record itself, but perhaps something in it. */
  readonly contents?: ReactNode;
  readonly children: (record: T) => ReactNode;
}

export function Reading<T>({ read: { data, error, refetch }, what, contents, children }: ReadingProps<T>) {
  const openRoom = useOpenRoom();
  if (data !== undefined) return children(data);
  if (error === null) return <Loading label={`Reading the ${what}…`} />;
  if (contents !== undefined && error instanceof errors.FORBIDDEN)
    return (
      <>
        <Toolbar>You may not read the {what} itself. What you may read in it:</Toolbar>
        {contents}
      </>
    );
  return (
    <PageBody label="Failure">
      <ErrorPanel error={error} title={`The ${what} cannot be shown`} onRetry={refetch} />
      <div>
        <Button onClick={() => openRoom('catalog')}>Go to the catalogs</Button>
      </div>
    </PageBody>
  );
}
