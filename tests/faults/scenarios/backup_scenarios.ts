// Backups and restores that are interrupted at every step. A backup changes nothing that a reader sees; tests/backups/ checks the
// files in its target.

import { deadlineMs } from '../../deadline.ts';
import type { Api } from '../injection/api.ts';
import { pathOf } from '../injection/api.ts';
import { uriOfPath } from './expectation.ts';
import { backupDirectory } from './scenario_flags.ts';
import {
  expectAbsent,
  makeTable,
  plainColumnsWith,
  requireAcknowledged,
  type Scenario,
  tableExists,
} from './scenario_parts.ts';

const taskWaitMs = deadlineMs(60_000);
const targetOf = (id: string) => ({ path: `${backupDirectory}/${process.pid}-${id}` });
const source = (id: string) => `s/${id}`;

async function makeSource(api: Api, id: string): Promise<void> {
  await makeTable(api, [source(id), 'd', 't'], 3);
  await makeTable(api, [source(id), 'd', 'keyed'], 2, { unique_key_constraints: ['n'], primaryKey: ['id'] });
  await makeTable(api, [source(id), 'e', 'empty'], 0);
}

const shared = 'shared';
let creation: Promise<void> | undefined;

/** Shared by all restores of this process, on any server. */
function makeBackup(api: Api): Promise<void> {
  creation ??= (async () => {
    await makeSource(api, shared);
    await requireAcknowledged(api.post(`${uriOfPath([source(shared)])}/backup`, { to: targetOf(shared) }));
    await api.endOfTasks(taskWaitMs);
  })();
  return creation;
}

/** With many steps, of which each run tries a sample. */
const isLarge = true;
const keyed = { ...plainColumnsWith(2), uniqueKey: ['n'] };

export const backupScenarios: Scenario[] = [
  {
    name: 'back a catalog up',
    prepare: makeSource,
    request: (id) => ({ method: 'POST', path: `${uriOfPath([source(id)])}/backup`, body: { to: targetOf(id) } }),
    before: (id) => tableExists([source(id), 'd', 't'], plainColumnsWith(3)),
    after: (id) => tableExists([source(id), 'd', 't'], plainColumnsWith(3)),
    isLarge,
  },
  {
    name: 'restore a catalog',
    prepare: makeBackup,
    request: (id) => ({
      method: 'POST',
      path: `${pathOf('catalogs')}/restore`,
      body: { name: `r/${id}`, from: targetOf(shared) },
    }),
    before: (id) => [...expectAbsent([`r/${id}`]), ...expectAbsent([`r/${id}`, 'd', 't'])],
    after: (id) => [
      ...tableExists([`r/${id}`, 'd', 't'], plainColumnsWith(3)),
      ...tableExists([`r/${id}`, 'd', 'keyed'], keyed),
      ...tableExists([`r/${id}`, 'e', 'empty'], plainColumnsWith(0)),
    ],
    repeatCondition: 'OBJECT_ALREADY_EXISTS',
    isLarge,
  },
  {
    name: 'restore a database',
    prepare: makeBackup,
    request: (id) => ({
      method: 'POST',
      path: `${uriOfPath(['default'])}/databases/restore`,
      body: { name: `r/${id}`, from: targetOf(shared), database: 'd' },
    }),
    before: (id) => [...expectAbsent(['default', `r/${id}`]), ...expectAbsent(['default', `r/${id}`, 't'])],
    after: (id) => [
      ...tableExists(['default', `r/${id}`, 't'], plainColumnsWith(3)),
      ...tableExists(['default', `r/${id}`, 'keyed'], keyed),
    ],
    repeatCondition: 'OBJECT_ALREADY_EXISTS',
    isLarge,
  },
];
