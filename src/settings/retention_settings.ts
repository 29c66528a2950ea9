// The settings of retention times; part of the table in server_settings.ts.
import type { Setting } from './setting_type.ts';

export const retentionSettings = {
  undropSeconds: {
    section: 'Data',
    type: 'integer',
    min: 0,
    max: 31_536_000,
    default: 86_400,
    doc: 'How long a dropped catalog, database or table can be restored; until then its data occupies disk space. 0: it is deleted immediately.',
  },
} as const satisfies Readonly<Record<string, Setting>>;
