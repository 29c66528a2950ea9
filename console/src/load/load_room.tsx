// The load room: a file is dropped or chosen, and loaded into a new table or into an existing one. `load/<catalog>/<database>/<table>`
// begins with that table.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { browsedDatabases } from '../app/browsed_databases.ts';
import { useRoomPath } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { Button } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Loading } from '../ui/feedback.tsx';
import { Field, TextInput } from '../ui/field.tsx';
import { DropZone } from './drop_zone.tsx';
import { FileLoad } from './file_load.tsx';
import styles from './load_room.module.css';
import type { Place, Target } from './load_session.ts';

async function places(signal: AbortSignal): Promise<Place[]> {
  const catalogs = await browsedDatabases(signal);
  return catalogs.flatMap(({ catalog, databases }) => databases.map((database) => ({ catalog, database })));
}

export function Room() {
  const [file, setFile] = useState<File>();
  const [catalog, database, table] = useRoomPath();
  const into: Target | undefined =
    catalog !== undefined && database !== undefined && table !== undefined ? { catalog, database, table } : undefined;
  const { data, error, refetch } = useQuery({
    queryKey: ['databases', 'load'],
    queryFn: ({ signal }) => places(signal),
  });
  if (error)
    return (
      <div className={styles.room}>
        <ErrorPanel title="The databases could not be listed" error={error} onRetry={refetch} />
      </div>
    );
  if (!data) return <Loading />;
  return (
    <div className={styles.room}>
      {data.length === 0 ? (
        <NewDatabase onCreated={refetch} />
      ) : file ? (
        <FileLoad
          key={`${file.name} ${file.lastModified}`}
          file={file}
          places={data}
          into={into}
          onAgain={() => setFile(undefined)}
        />
      ) : (
        <DropZone into={into} onFile={setFile} />
      )}
    </div>
  );
}

function NewDatabase({ onCreated }: { readonly onCreated: () => unknown }) {
  const [name, setName] = useState('files');
  const [error, setError] = useState<unknown>();
  const create = () => {
    client.databases.create({ name }, { ifExists: 'return' }).then(onCreated, setError);
  };
  return (
    <section className={styles.panel} aria-label="Database">
      <h2>A table needs a database</h2>
      <Field label="Name of the new database">
        <TextInput value={name} onChange={setName} />
      </Field>
      {error !== undefined && <ErrorPanel title="The database could not be created" error={error} />}
      <div>
        <Button look="primary" disabled={name.trim() === ''} onClick={create}>
          Create the database
        </Button>
      </div>
    </section>
  );
}
