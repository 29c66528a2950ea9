// Every kind of task that this server runs.
import type { Backups } from '../backups/backups.ts';
import type { Restores } from '../backups/restores.ts';
import type { ServerBackups } from '../backups/server/server_backups.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Moves } from '../moves/moves.ts';
import type { Exports } from '../query/exports/exports.ts';
import type { TaskKind } from '../tasks/task.ts';
import type { ObjectTaskParts } from './admitted_objects.ts';
import { backUpKind } from './back_up.ts';
import { backUpServerKind } from './back_up_server.ts';
import { changeKinds } from './change_object.ts';
import { checkCatalogKind } from './check_catalog.ts';
import { checksumTableKind } from './checksum_table.ts';
import { createFilledTableKind } from './create_filled_table.ts';
import { decommissionKind } from './decommission_backend.ts';
import { exportRowsKind } from './export_rows.ts';
import { loadDatabaseKind } from './load_database.ts';
import { loadTableKind } from './load_table.ts';
import { moveCatalogKind } from './move_catalog.ts';
import { optimizeTableKind } from './optimize_table.ts';
import { restoreBackupKind } from './restore_backup.ts';
import { runQueryKinds } from './run_query.ts';

type KindParts = Parameters<typeof runQueryKinds>[0] &
  Parameters<typeof loadTableKind>[0] &
  Parameters<typeof loadDatabaseKind>[0] &
  Parameters<typeof createFilledTableKind>[0] &
  ObjectTaskParts & {
    readonly catalog: Catalog;
    readonly exports: Exports;
    readonly backups: Backups;
    readonly restores: Restores;
    readonly serverBackups: ServerBackups;
    readonly moves: Moves;
  };

export const taskKinds = (parts: KindParts): TaskKind[] => [
  ...runQueryKinds(parts),
  loadTableKind(parts),
  loadDatabaseKind(parts),
  createFilledTableKind(parts),
  optimizeTableKind(parts),
  checksumTableKind(parts),
  checkCatalogKind(parts),
  decommissionKind(parts),
  ...changeKinds(parts.catalog),
  exportRowsKind(parts.exports),
  backUpKind(parts.backups),
  backUpServerKind(parts.serverBackups),
  restoreBackupKind(parts),
  moveCatalogKind(parts),
];
