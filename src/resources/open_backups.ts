// Backups and restores put together: where they may be kept, and how tables stand in them.

import type { Trail } from '../access/audit.ts';
import type { Decisions } from '../access/decisions.ts';
import type { Directory } from '../access/directory.ts';
import type { Secrets } from '../access/secrets.ts';
import { Backups } from '../backups/backups.ts';
import { PlaceNotes } from '../backups/place_notes.ts';
import { Places } from '../backups/places.ts';
import { Restores } from '../backups/restores.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Warehouses } from '../engines/warehouses.ts';
import { backUpKind } from '../jobs/back_up.ts';
import { restoreBackupKind } from '../jobs/restore_backup.ts';
import type { HostRules } from '../outbound/host_rules.ts';
import type { Store } from '../store/store.ts';
import type { TaskKind } from '../tasks/task.ts';
import type { Tasks } from '../tasks/tasks.ts';
import { backedUpBody, restoredSpec } from './backed_up_table.ts';
import { definitionOf } from './table_definition.ts';

export interface OpenedBackups {
  readonly backups: Backups;
  readonly restores: Restores;
}

export function openBackups(parts: {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
  readonly decisions: Decisions;
  readonly directory: Directory;
  readonly trail: Trail;
  readonly store: Store;
  readonly secrets: Secrets;
  readonly tasks: Tasks;
  readonly spoolDirectory: string;
  readonly backupDirectories: readonly string[];
  readonly exportHosts: HostRules;
  readonly loading: { readonly hosts: HostRules; readonly bytesMax: number; readonly fetchMs: number };
  readonly release: string;
}): OpenedBackups {
  const { store, secrets, backupDirectories: directories, exportHosts, loading } = parts;
  const places = new Places({ directories, hosts: { to: exportHosts, from: loading.hosts } });
  const notes = (prefix: string) => new PlaceNotes(store, secrets, prefix);
  return {
    backups: new Backups({ ...parts, places, notes: notes('backup '), bodyOf: backedUpBody }),
    restores: new Restores({ ...parts, places, notes: notes('restore '), specOf: restoredSpec, definitionOf }),
  };
}

export const backupKinds = ({
  opened,
  catalog,
}: {
  opened: () => OpenedBackups;
  catalog: () => Catalog;
}): TaskKind[] => [
  backUpKind(() => opened().backups),
  restoreBackupKind({ restores: () => opened().restores, catalog }),
];
