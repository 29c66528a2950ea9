// Backups and restores put together: where they may be kept, and how tables stand in them.

import type { Trail } from '../../access/audit/audit_log.ts';
import type { Decisions } from '../../access/authorization/authorizer.ts';
import type { Directory } from '../../access/authorization/directory.ts';
import type { Secrets } from '../../access/secrets/secrets.ts';
import { Backups } from '../../backups/backups.ts';
import { Restores } from '../../backups/restores.ts';
import { ServerBackups, serverBackupNotes } from '../../backups/server/server_backups.ts';
import { defaultPieceBytesMax } from '../../backups/server/server_copy.ts';
import { KeySealer } from '../../backups/server/server_keys.ts';
import { Places } from '../../backups/targets/backup_targets.ts';
import { PlaceNotes } from '../../backups/targets/target_secrets.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import { warehouseNames } from '../../catalog/warehouse_objects.ts';
import type { Warehouses } from '../../engines/warehouses.ts';
import { backUpKind } from '../../jobs/back_up.ts';
import { backUpServerKind } from '../../jobs/back_up_server.ts';
import { restoreBackupKind } from '../../jobs/restore_backup.ts';
import type { HostRules } from '../../outbound/host_allowlist.ts';
import type { Store } from '../../store/store.ts';
import type { TaskKind } from '../../tasks/task.ts';
import type { Tasks } from '../../tasks/tasks.ts';
import { backedUpBody, restoredSpec } from '../table_definitions/backup_format.ts';
import { definitionOf } from '../table_definitions/table_definition.ts';

export interface OpenedBackups {
  readonly backups: Backups;
  readonly restores: Restores;
  readonly serverBackups: ServerBackups;
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
  readonly dataDirectory: string;
  readonly spoolDirectory: string;
  readonly stagingDirectory: string;
  readonly settings: { readonly backupPassphrase: string; readonly secretKey: string; readonly secretKeyFile: string };
  readonly backupDirectories: readonly string[];
  readonly exportHosts: HostRules;
  readonly loading: { readonly hosts: HostRules; readonly bytesMax: number; readonly fetchMs: number };
  readonly release: string;
}): OpenedBackups {
  const { store, secrets, backupDirectories: directories, exportHosts, loading, settings, catalog } = parts;
  const places = new Places({ directories, hosts: { to: exportHosts, from: loading.hosts } });
  const notes = (prefix: string) => new PlaceNotes(store, secrets, prefix);
  return {
    backups: new Backups({ ...parts, places, notes: notes('backup '), bodyOf: backedUpBody }),
    restores: new Restores({ ...parts, places, notes: notes('restore '), specOf: restoredSpec, definitionOf }),
    serverBackups: new ServerBackups({
      ...parts,
      places,
      notes: notes(serverBackupNotes),
      warehouseNames: () => warehouseNames(catalog),
      isKeyOutside: settings.secretKey !== '' || settings.secretKeyFile !== '',
      sealer: new KeySealer(settings.backupPassphrase),
      pieceBytesMax: defaultPieceBytesMax,
    }),
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
  backUpServerKind(() => opened().serverBackups),
  restoreBackupKind({ restores: () => opened().restores, catalog }),
];
