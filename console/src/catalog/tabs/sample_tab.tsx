// The first rows of a table or a view, in the grid of results, with their chart and the profile of their columns.
import { useEffect, useState } from 'react';
import { quotedName } from '../../results/grid/value_text.ts';
import { ResultPanel } from '../../results/result_panel.tsx';
import { StatementRun } from '../../results/run/statement_run.ts';

const sampleRows = 200;

export function SampleTab({ path }: { readonly path: readonly string[] }) {
  const [catalog = '', database = '', name = ''] = path;
  const [run, setRun] = useState<StatementRun>();
  const [chart, setChart] = useState<unknown>();
  useEffect(() => {
    const sql = `SELECT * FROM ${quotedName(database)}.${quotedName(name)} LIMIT ${sampleRows}`;
    const started = new StatementRun({ sql, place: { catalog, database } });
    setRun(started);
    return () => started.close();
  }, [catalog, database, name]);
  return run && <ResultPanel run={run} chart={{ settings: chart, onChange: setChart }} />;
}
