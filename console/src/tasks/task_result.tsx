// The result of a task that has succeeded: its numbers, its files, its rejected rows, and the first rows of a query.
import { useQuery } from '@tanstack/react-query';
import { Download } from 'lucide-react';
import { useMemo, useState } from 'react';
import type { TaskRecord } from '../../../src/client/index.ts';
import { client } from '../app/session.ts';
import { Button } from '../ui/button.tsx';
import { CodeBlock } from '../ui/data/code_block.tsx';
import { DataTable } from '../ui/data/data_table.tsx';
import { type Fact, Facts } from '../ui/data/facts.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Loading } from '../ui/feedback.tsx';
import { formatBytes, formatCount, formatDuration, formatTime } from '../ui/format.ts';
import styles from './tasks_room.module.css';

type Fields = Readonly<Record<string, unknown>>;

export function TaskResult({ task }: { readonly task: TaskRecord }) {
  const { state, taskId, rejectsLink } = task;
  if (state !== 'succeeded' || task.result === null) return null;
  const result: Fields = task.result;
  const statistics = result.statistics as Fields | undefined;
  const facts = factsOf({ ...result, ...statistics });
  const files = [
    ...filesOf(result.files),
    ...linkOf('Rejected rows', rejectsLink),
    ...linkOf('Manifest', result.manifestLink),
  ];
  const hasRows = task.firstPage !== undefined && numberOf(result.rowCount) > 0;
  return (
    <section className={styles.section}>
      <h3>Result</h3>
      <Facts facts={facts} />
      {typeof result.advice === 'string' && <p>{result.advice}</p>}
      {files.length > 0 && (
        <div className={styles.actions}>
          {files.map(({ name, link, text }) => (
            <a key={link} href={link} download>
              <Download aria-hidden size={13} /> {name} {text}
            </a>
          ))}
        </div>
      )}
      {hasRows && <FirstRows taskId={taskId} bytes={numberOf(statistics?.resultBytes)} />}
      <Others result={result} />
    </section>
  );
}

const numberOf = (value: unknown): number => (typeof value === 'number' ? value : 0);

const labelOf = (field: string): string => {
  const words = field.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).replace(/ (ms|seconds|bytes)$/, '');
  return words.charAt(0).toUpperCase() + words.slice(1);
};

/** Numbers have their units; a name ends with its unit. */
function valueText(field: string, value: string | number | boolean): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'string') return /(At|Until)$/.test(field) ? formatTime(value) : value;
  if (/Ms$/.test(field)) return formatDuration(value);
  if (/Seconds$/.test(field)) return formatDuration(value * 1000);
  return /bytes/i.test(field) ? formatBytes(value) : formatCount(value);
}

/** Left out while they are false. */
const exceptions: ReadonlySet<string> = new Set(['truncated', 'dryRun', 'repeated', 'released']);

function factsOf(result: Fields): Fact[] {
  return Object.entries(result).flatMap(([field, value]) => {
    const isShown = value || !exceptions.has(field);
    if (!isScalar(value) || !isShown || field === 'advice' || /Link$/.test(field)) return [];
    return [{ label: labelOf(field), value: valueText(field, value) }];
  });
}

interface ResultFile {
  readonly name: string;
  readonly link: string;
  readonly text: string;
}

const linkOf = (name: string, link: unknown): ResultFile[] =>
  typeof link === 'string' ? [{ name, link, text: '' }] : [];

function filesOf(files: unknown): ResultFile[] {
  if (!Array.isArray(files)) return [];
  return files.flatMap((file: Fields, i): ResultFile[] => {
    const link = file.link ?? file.uri;
    if (typeof link !== 'string') return [];
    const name = typeof file.name === 'string' ? file.name : `File ${i + 1} (${String(file.format ?? '')})`;
    return [{ name, link, text: formatBytes(numberOf(file.bytes)) }];
  });
}

/** What the facts do not show, such as the rejected rows of a load or the faults of a check. */
function Others({ result }: { readonly result: Fields }) {
  const { columns: _columns, statistics: _statistics, files: _files, ...rest } = result;
  const others = Object.entries(rest).filter(([, value]) =>
    Array.isArray(value) ? value.length > 0 : typeof value === 'object' && value !== null,
  );
  return others.map(([field, value]) => (
    <div key={field} className={styles.section}>
      <h3>{labelOf(field)}</h3>
      {isRecords(value) ? (
        <Records label={labelOf(field)} records={value} />
      ) : (
        <CodeBlock code={JSON.stringify(value, null, 2)} label={labelOf(field).toLowerCase()} />
      )}
    </div>
  ));
}

const isScalar = (value: unknown): value is string | number | boolean =>
  ['string', 'number', 'boolean'].includes(typeof value);

/** A list of objects whose fields have simple values. */
const isRecords = (value: unknown): value is readonly Fields[] =>
  Array.isArray(value) &&
  value.every(
    (one: unknown) =>
      typeof one === 'object' && one !== null && Object.values(one).every((each) => each === null || isScalar(each)),
  );

const recordsMax = 200;

/** With their whole texts, such as why an object cannot be moved. A field that no record has a value for is left out. */
function Records({ label, records }: { readonly label: string; readonly records: readonly Fields[] }) {
  const shown = records.slice(0, recordsMax);
  const fields = new Set(shown.flatMap((record) => Object.keys(record).filter((field) => record[field] !== null)));
  return (
    <>
      <section className={styles.records} aria-label={label}>
        <table>
          <thead>
            <tr>
              {[...fields].map((field) => (
                <th key={field} scope="col">
                  {labelOf(field)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((record) => (
              <tr key={JSON.stringify(record)}>
                {[...fields].map((field) => (
                  <td key={field}>{cellText(field, record[field])}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {records.length > recordsMax && <p>{`The first ${recordsMax} of ${formatCount(records.length)}.`}</p>}
    </>
  );
}

const cellText = (field: string, value: unknown): string => (isScalar(value) ? valueText(field, value) : '–');

/** Larger pages are read on request, because reading one blocks the main thread of the page for a while. */
const rowsBytesMax = 200_000;

function FirstRows({ taskId, bytes }: { readonly taskId: string; readonly bytes: number }) {
  const [isWanted, setIsWanted] = useState(bytes <= rowsBytesMax);
  const page = useQuery({
    queryKey: ['tasks', taskId, 'pages', '0'],
    enabled: isWanted,
    queryFn: ({ signal }) => client.tasks(taskId).pages('0').get({ signal }),
  });
  const columns = useMemo(
    () =>
      (page.data?.columns ?? []).map(({ name }, i) => ({
        id: `${i}`,
        header: name,
        value: ({ row }: { readonly row: readonly unknown[] }) => textOf(row[i]),
      })),
    [page.data],
  );
  const records = useMemo(() => page.data?.rows?.map((row, i) => ({ row, i })), [page.data]);
  if (!isWanted)
    return (
      <div className={styles.actions}>
        <Button size="small" onClick={() => setIsWanted(true)}>
          Show the first rows
        </Button>
      </div>
    );
  if (page.error) return <ErrorPanel error={page.error} title="The rows could not be read" onRetry={page.refetch} />;
  if (!records) return <Loading />;
  return (
    <div className={styles.rows}>
      <DataTable label="First rows" columns={columns} records={records} keyOf={({ i }) => `${i}`} />
    </div>
  );
}

function textOf(value: unknown): string | number | boolean | null {
  if (value === null || typeof value === 'number' || typeof value === 'boolean' || typeof value === 'string')
    return value;
  return JSON.stringify(value);
}
