// The spec that the objects of each category have: what the store holds as JSON is typed by the category of its row.
import type { ProviderSpec } from '../access/authentication/identity_providers.ts';
import type { RoleSpec, UserSpec } from '../access/authorization/directory_types.ts';
import type { ServerBackupSpec } from '../backups/server/server_backup_spec.ts';
import type { BackendSpec, CatalogSpec, DatabaseSpec, TableSpec, ViewSpec, WarehouseSpec } from '../model/records.ts';
import type { DraftSpec, SavedQuerySpec } from '../model/saved_queries.ts';
import type { ScheduleSpec } from '../tasks/schedule.ts';

/** A category whose spec nothing else needs adds it where its handlers are (`declare module`). */
export interface Specs {
  readonly catalogs: CatalogSpec;
  readonly databases: DatabaseSpec;
  readonly tables: TableSpec;
  readonly views: ViewSpec;
  readonly warehouses: WarehouseSpec;
  readonly backends: BackendSpec;
  readonly users: UserSpec;
  readonly roles: RoleSpec;
  readonly identity_providers: ProviderSpec;
  readonly schedules: ScheduleSpec;
  readonly drafts: DraftSpec;
  readonly saved_queries: SavedQuerySpec;
  readonly server_backups: ServerBackupSpec;
}

export type SpecOf<K extends string> = K extends keyof Specs ? Specs[K] : unknown;
