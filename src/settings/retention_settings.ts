// The settings of how long things are kept, as a part of the table of settings.
import type { Setting } from './setting_type.ts';

export const retentionSettings = {
  undropSeconds: {
    section: 'Data',
    type: 'integer',
    min: 0,
    max: 31_536_000,
    default: 86_400,
    doc: 'How long a catalog, database or table that was dropped can come back; until then its data takes room. 0: it goes at once.',
  },
} as const satisfies Readonly<Record<string, Setting>>;
