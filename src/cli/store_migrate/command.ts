// The command `store migrate`: moves the metadata store of stopped servers between SQLite and PostgreSQL, or between two databases.
import { keyOfSettings } from '../../access/secrets/secrets.ts';
import { SettingsError } from '../../settings/read_settings.ts';
import type { Command } from '../command.ts';
import { type MigrateOptions, type Migration, migrateStore } from './migrate_store.ts';
import { type StorePlace, storePlace } from './store_places.ts';

export const migrateStoreWith =
  ({ isLocalEngine }: Pick<MigrateOptions, 'isLocalEngine'>): Command['run'] =>
  async (settings, print) => {
    const from = placeOf('--from', settings.from);
    const to = placeOf('--to', settings.to);
    const migration = await migrateStore({ from, to, keys: keyOfSettings(settings), isLocalEngine });
    for (const line of linesOf(migration, from, to)) print(line);
    return { from: from.name, to: to.name, ...migration };
  };

function placeOf(flag: string, text: string): StorePlace {
  if (text === '') throw new SettingsError(`store migrate requires ${flag}`);
  return storePlace(flag, text);
}

const counted = (count: number, one: string): string => `${count} ${one}${count === 1 ? '' : 's'}`;

function linesOf({ copied, tables, audit, secrets }: Migration, from: StorePlace, to: StorePlace): string[] {
  const width = Math.max(...tables.map(({ table }) => table.length));
  const rows = tables.map(
    ({ table, rows: count, checksum }) => `${table.padEnd(width)} ${String(count).padStart(9)}  ${checksum}`,
  );
  const lines = [
    ...rows,
    copied
      ? `${from.name} was moved to ${to.name}: the number and the checksum of the rows of each table are equal.`
      : `${from.name} had been copied to ${to.name} before, and has been taken out of use now.`,
  ];
  if (audit === undefined)
    lines.push(
      'The secrets and the audit trail were copied without the key of the secrets, so they were not verified.',
    );
  else
    lines.push(
      `${counted(secrets, 'secret')} can be decrypted. The audit trail has ${counted(audit.eventCount, 'line')} and ${counted(audit.faults.length, 'fault')}, as before.`,
    );
  return [...lines, nextStep(from, to)];
}

function nextStep({ dataDirectory: from }: StorePlace, { dataDirectory: to, name }: StorePlace): string {
  if (from !== undefined)
    return `Start the server with --data-dir=${from} and the setting store. Its data and its key of the secrets stay there.`;
  return to === undefined
    ? `Start each server with the setting store for ${name}.`
    : `Start the server with --data-dir=${to}, without the setting store.`;
}
