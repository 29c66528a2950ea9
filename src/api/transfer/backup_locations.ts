// The targets of backups: a directory of the server or an object store.
import { strictObject, Type } from '../../standard/type.ts';
import { noNul } from '../fields.ts';
import { storeFolder } from '../object_store_fields.ts';

const pathCharactersMax = 4096;

/** `hosts`: the name of the setting that lists the allowed object stores. */
export const location = (hosts: 'exportHosts' | 'loadHosts', title: string, description: string) =>
  strictObject(
    {
      path: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: pathCharactersMax,
          pattern: noNul,
          description: 'The absolute path of a directory on the server, in one of its `backupDirectories`.',
        }),
      ),
      s3: Type.Optional(storeFolder(hosts)),
    },
    {
      title,
      minProperties: 1,
      maxProperties: 1,
      description,
    },
  );

/** Damaged catalogs, which a backup of the server omits. */
export const CatalogsLeftOut = Type.Array(Type.Object({ name: Type.String(), reason: Type.String() }), {
  description: 'Damaged catalogs; the backup does not contain their data.',
});

const targetDescription =
  'The target of the backups; exactly one of these. If it contains a backup of the same object, only changed data is sent.';

export const To = location('exportHosts', 'BackupTarget', targetDescription);

export const From = location('loadHosts', 'BackupSource', targetDescription);

export const ServerBackupTarget = location(
  'exportHosts',
  'ServerBackupTarget',
  'The target that contains the backup; exactly one of these.',
);
