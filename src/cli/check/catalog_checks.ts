// The interfaces between the command `check` and the engine: the catalog under check, and the checks and repairs that an engine's
// adapter provides.
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
  /** The data directory, or a directory with the same layout. */
  readonly dataDirectory: string;
  readonly id: string;
}

/** The functions of the engine's adapter, and a server that reads what only an engine can read. */
export interface CatalogChecks {
  /** Reads the whole file of a catalog. `faults` are sentences; empty if there are none. */
  readonly checkCatalog: (
    dataDirectory: string,
    catalog: CatalogName,
    recorded: RecordedFile | undefined,
    expected: readonly ExpectedTable[],
  ) => Promise<{ readonly faults: readonly string[]; readonly bytes: number | undefined }>;
  readonly damagedLog: (dataDirectory: string, catalog: CatalogName) => Promise<LogCut | undefined>;
  /** `cutLog` and `setFilesAside` return the names of the files with the originals. */
  readonly cutLog: (dataDirectory: string, catalog: CatalogName, cut: LogCut, suffix: string) => Promise<string[]>;
  /** Moves the files of a catalog, possibly to another id. @returns their position. */
  readonly moveFiles: (from: CatalogFiles, to: CatalogFiles) => Promise<Omit<RecordedFile, 'identity'>>;
  /** The number of rows of each table, by `database.table`. */
  readonly rowCounts: (
    dataDirectory: string,
    catalog: CatalogName,
    tables: readonly ExpectedTable[],
  ) => Promise<ReadonlyMap<string, number>>;
  /** Starts a server that has no catalog. */
  readonly startScratchServer: (settings: Settings) => Promise<RunningServer>;
  readonly setFilesAside: (dataDirectory: string, catalog: CatalogName, suffix: string) => Promise<string[]>;
}

export interface CatalogsToCheck {
  readonly store: Store;
  readonly dataDirectory: string;
  /** The name of the catalog to check; empty: all catalogs. */
  readonly catalogName: string;
  readonly repair: Settings['repair'];
  readonly settings: Settings;
  readonly suffix: string;
  readonly say: (line: string) => void;
  readonly checks: CatalogChecks;
  readonly audit: Pick<RepairAudit, 'ready' | 'write'>;
}
