// Assembles backups, restores and moves: the allowed targets, and the format of tables in them.

import type { Trail } from '../../access/audit/audit_log.ts';
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { Directory } from '../../access/authorization/directory.ts';
import type { Secrets } from '../../access/secrets/secrets.ts';
import { categoriesApi } from '../../api/categories.ts';
import type { DeclaredCategory } from '../../api/declare.ts';
import { Backups } from '../../backups/backups.ts';
import { Restores } from '../../backups/restores.ts';
import { ServerBackups, serverBackupSecretPrefix } from '../../backups/server/server_backups.ts';
import { defaultPieceBytesMax } from '../../backups/server/server_copy.ts';
import { KeySealer } from '../../backups/server/server_keys.ts';
import { BackupTargets } from '../../backups/targets/backup_targets.ts';
import { TargetSecrets } from '../../backups/targets/target_secrets.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import { warehouseNames } from '../../catalog/warehouse_objects.ts';
import type { Warehouses } from '../../engines/warehouses/warehouses.ts';
import { Moves } from '../../moves/moves.ts';
import type { Observe } from '../../observe/observations.ts';
import type { HostAllowlist } from '../../outbound/host_allowlist.ts';
import type { LeaseHolder } from '../../store/leases.ts';
import type { SqliteStore } from '../../store/sqlite/sqlite_store.ts';
import type { Store } from '../../store/store.ts';
import type { Tasks } from '../../tasks/tasks.ts';
import { backedUpBody, restoredSpec } from '../table_definitions/backup_format.ts';
import { definitionOf, definitionViolations } from '../table_definitions/table_definition.ts';

const declaredCategories: readonly DeclaredCategory[] = categoriesApi;

export interface AssembledBackups {
  readonly backups: Backups;
  readonly restores: Restores;
  readonly serverBackups: ServerBackups;
  readonly moves: Moves;
}

export function assembleBackups(parts: {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
  readonly observe: Observe;
  readonly authorizer: Authorizer;
  readonly directory: Directory;
  readonly trail: Trail;
  readonly store: Store;
  readonly holder: LeaseHolder;
  readonly sqlite: SqliteStore | undefined;
  readonly secrets: Secrets;
  readonly tasks: Tasks;
  readonly dataDirectory: string;
  readonly spoolDirectory: string;
  readonly stagingDirectory: string;
  readonly settings: { readonly backupPassphrase: string; readonly secretKey: string; readonly secretKeyFile: string };
  readonly backupDirectories: readonly string[];
  readonly exportHosts: HostAllowlist;
  readonly loading: { readonly hosts: HostAllowlist; readonly bytesMax: number; readonly fetchMs: number };
  readonly release: string;
}): AssembledBackups {
  const { store, secrets, backupDirectories: directories, exportHosts, loading, settings, catalog } = parts;
  const targets = new BackupTargets({ directories, hosts: { to: exportHosts, from: loading.hosts } });
  const metadataCategories = declaredCategories.flatMap(({ name, spec }) => (spec ? [{ name, spec }] : []));
  const notes = (prefix: string) => new TargetSecrets(store, secrets, prefix);
  return {
    backups: new Backups({
      ...parts,
      targets,
      secrets: notes('backup '),
      bodyOf: backedUpBody,
      metadataCategories,
    }),
    restores: new Restores({
      ...parts,
      targets,
      secrets: notes('restore '),
      specOf: restoredSpec,
      definitionOf,
      metadataCategories,
    }),
    moves: new Moves({ ...parts, metadataCategories, definitionOf, violationsOf: definitionViolations }),
    serverBackups: new ServerBackups({
      ...parts,
      targets,
      secrets: notes(serverBackupSecretPrefix),
      warehouseNames: () => warehouseNames(catalog),
      isKeyOutside: settings.secretKey !== '' || settings.secretKeyFile !== '',
      sealer: new KeySealer(settings.backupPassphrase),
      pieceBytesMax: defaultPieceBytesMax,
    }),
  };
}
