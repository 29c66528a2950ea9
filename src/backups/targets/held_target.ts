// A backup target for one run of a task: each write and removal happens only while this run holds the task, because all runs of a task use
// the same folder, and another runner may have completed it.
import type { BackupTarget } from './backup_target.ts';

/** `confirm` throws if another runner has the task. */
export function heldTarget(target: BackupTarget, confirm: () => Promise<void>): BackupTarget {
  return {
    list: (...options) => target.list(...options),
    read: (...options) => target.read(...options),
    readSmall: (...options) => target.readSmall(...options),
    readEnd: (...options) => target.readEnd(...options),
    write: (...options) => confirm().then(() => target.write(...options)),
    writeSmall: (...options) => confirm().then(() => target.writeSmall(...options)),
    remove: (...options) => confirm().then(() => target.remove(...options)),
    clear: (...options) => confirm().then(() => target.clear(...options)),
    close: () => target.close(),
  };
}
