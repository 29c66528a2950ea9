// The settings of `store migrate`; part of the table in server_settings.ts.
import type { Setting } from './setting_type.ts';

const migrateSetting = { section: 'Commands', command: 'store migrate' } as const;
const form =
  '`sqlite:<data directory>`, or the URL of a PostgreSQL database as in `store`. A password in it is not accepted as a flag';

export const storeMigrateSettings = {
  from: {
    ...migrateSetting,
    type: 'string',
    only: 'flag and variable',
    default: '',
    doc: `For \`store migrate\`: the metadata store to move. ${form}.`,
  },
  to: {
    ...migrateSetting,
    type: 'string',
    only: 'flag and variable',
    default: '',
    doc: `For \`store migrate\`: where to move it; a data directory without a store, or an empty database. ${form}.`,
  },
  json: {
    ...migrateSetting,
    type: 'boolean',
    only: 'flag',
    default: false,
    doc: 'For `store migrate`: prints one JSON object instead of lines.',
  },
} as const satisfies Readonly<Record<string, Setting>>;
