// Loads that are interrupted at every step: into existing tables, and into tables created for them.
import { uriOfPath } from './expectation.ts';
import { notesFile } from './scenario_flags.ts';
import {
  databaseOf,
  expectAbsent,
  makeTable,
  plainColumnsWith,
  requireAcknowledged,
  type Scenario,
  tableExists,
  tableOf,
} from './scenario_parts.ts';

function load(name: string, more: object, repeatCondition?: string): Scenario {
  const body = { source: { path: notesFile }, columns: [{ name: 'id' }, { name: 'v', source: 'note' }], ...more };
  return {
    name,
    prepare: (api, id) => makeTable(api, tableOf(id), 3),
    request: (id) => ({ method: 'POST', path: `${uriOfPath(tableOf(id))}/load`, body }),
    before: (id) => tableExists(tableOf(id), plainColumnsWith(3)),
    after: (id) => tableExists(tableOf(id), plainColumnsWith(5)),
    isTask: true,
    ...(repeatCondition === undefined ? {} : { repeatCondition }),
  };
}

export const loadScenarios: readonly Scenario[] = [
  ...[{}, { label: 'notes' }].map(
    (more): Scenario => ({
      name: `make a table from a file${'label' in more ? ' under a label' : ''}`,
      prepare: async (api, id) => void (await requireAcknowledged(api.put(uriOfPath(databaseOf(id)), {}))),
      request: (id) => ({
        method: 'POST',
        path: `${uriOfPath(databaseOf(id))}/load`,
        body: {
          source: { path: notesFile },
          table: `t"${id}`,
          columns: [{ name: 'id' }, { name: 'n', expression: 'id', type: 'INT' }, { name: 'v', source: 'note' }],
          primaryKey: ['id'],
          ...more,
        },
      }),
      before: (id) => expectAbsent(tableOf(id)),
      after: (id) => tableExists(tableOf(id), plainColumnsWith(2)),
      isTask: true,
      ...('label' in more ? {} : { repeatCondition: 'OBJECT_ALREADY_EXISTS' }),
    }),
  ),
  load('load a file', {}, 'more'),
  load('load a file under a label', { label: 'notes' }),
];
