// What the command `check` needs of a catalog: its recorded file, the checks and repairs of the engine's adapter, and what it works on.
import type { ExpectedTable } from '../../model/expected_table.ts';
import type { Settings } from '../../settings/read_settings.ts';
import type { Store } from '../../store/store.ts';
import type { RunningServer } from '../serve.ts';
import type { RepairAudit } from './repair_audit.ts';

export interface RecordedFile {
  readonly identity: string;
  readonly checkpoint: number;
  readonly logBytes: number;
}

export interface CatalogName {
  readonly id: string;
  readonly name: string;
}

export interface LogCut {
  readonly keptBytes: number;
  readonly lostBytes: number;
}

export interface CatalogFiles {
  /** Or a directory laid out as one. */
  readonly dataDirectory: string;
  readonly id: string;
}

/** What the engine's adapter does with files of catalogs, and a server that reads what only an engine can. */
export interface CatalogChecks {
  /** Reads all of a catalog's file. `faults` are sentences; none: it is sound. */
  readonly checkCatalog: (
    dataDirectory: string,
    catalog: CatalogName,
    recorded: RecordedFile | undefined,
    expected: readonly ExpectedTable[],
  ) => Promise<{ readonly faults: readonly string[]; readonly bytes: number | undefined }>;
  readonly damagedLog: (dataDirectory: string, catalog: CatalogName) => Promise<LogCut | undefined>;
  /** `cutLog` and `setFilesAside` return the names of the files that have the originals. */
  readonly cutLog: (dataDirectory: string, catalog: CatalogName, cut: LogCut, suffix: string) => Promise<string[]>;
  /** Moves the files of a catalog, also to another id. @returns their position. */
  readonly moveFiles: (from: CatalogFiles, to: CatalogFiles) => Promise<Omit<RecordedFile, 'identity'>>;
  /** By `database.table`. */
  readonly rowCounts: (
    dataDirectory: string,
    catalog: CatalogName,
    tables: readonly ExpectedTable[],
  ) => Promise<ReadonlyMap<string, number>>;
  /** Without a catalog. */
  readonly startScratchServer: (settings: Settings) => Promise<RunningServer>;
  readonly setFilesAside: (dataDirectory: string, catalog: CatalogName, suffix: string) => Promise<string[]>;
}

export interface CatalogsToCheck {
  readonly store: Store;
  readonly dataDirectory: string;
  /** Of the one catalog with this name; empty: all. */
  readonly only: string;
  readonly repair: Settings['repair'];
  readonly settings: Settings;
  readonly suffix: string;
  readonly say: (line: string) => void;
  readonly checks: CatalogChecks;
  readonly audit: Pick<RepairAudit, 'ready' | 'write'>;
}
