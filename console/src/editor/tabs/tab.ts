// A tab of the editor and the draft on the server that it is stored as.
import type { Client } from '../../../../src/client/index.ts';
import type { Place } from '../../results/run/messages.ts';

export type SavedParameters = readonly unknown[] | Readonly<Record<string, unknown>> | null;

/** What a user changes. */
export interface TabContent {
  readonly name: string;
  readonly sql: string;
  readonly place: Place;
  readonly parameters: SavedParameters;
  /** The saved query that the text came from. */
  readonly savedQuery: string | null;
  /** How its result is drawn, as a saved query stores it. */
  readonly chart: unknown;
}

/** `unsaved`: the server does not have the latest change yet. */
export type SaveState = 'saved' | 'unsaved' | 'saving' | 'failed';

export interface Tab extends TabContent {
  /** The id of the draft. */
  readonly id: string;
  /** Of the draft on the server; undefined if it has none yet. */
  readonly version: number | undefined;
  readonly save: SaveState;
  /** Why the last attempt to save failed. */
  readonly error?: unknown;
}

export type DraftRecord = Awaited<ReturnType<ReturnType<Client['drafts']>['get']>>;

/** Of a draft whose tab was closed: when. */
const closedAtProperty = 'closedAt';
const savedQueryProperty = 'savedQuery';

export const closedAtOf = ({ properties }: DraftRecord): string | undefined => properties[closedAtProperty];

export const contentOf = ({ name, sql, catalog, database, parameters, properties }: DraftRecord): TabContent => ({
  name,
  sql,
  place: { catalog: catalog ?? 'default', database: database ?? undefined },
  parameters,
  savedQuery: properties[savedQueryProperty] ?? null,
  // Drafts have no charts: only this browser's tab and the saved query do.
  chart: null,
});

export const tabOf = (record: DraftRecord): Tab => ({
  ...contentOf(record),
  id: record.draftId,
  version: record.version,
  save: 'saved',
});

/** The body that stores a tab. `closedAt`: the tab is closed. */
export const bodyOf = ({ name, sql, place, parameters, savedQuery }: TabContent, closedAt?: string) => ({
  name,
  sql,
  catalog: place.catalog,
  database: place.database ?? null,
  parameters: parameters === null ? null : (structuredClone(parameters) as unknown[] | Record<string, unknown>),
  properties: {
    ...(savedQuery === null ? {} : { [savedQueryProperty]: savedQuery }),
    ...(closedAt === undefined ? {} : { [closedAtProperty]: closedAt }),
  },
});
