// Writes the repairs of the command `check` to the audit trail of the stopped server, each event in the transaction of its change.
import { randomUUID } from 'node:crypto';
import type { Transaction } from 'kysely';
import { auditKeyOf } from '../../access/assemble_access.ts';
import { AuditJournal } from '../../access/audit/audit_journal.ts';
import { AuditTrail, serverIdSetting } from '../../access/audit/audit_log.ts';
import { systemActor } from '../../model/principal.ts';
import type { Settings } from '../../settings/read_settings.ts';
import type { Schema } from '../../store/schema.ts';
import { getOrCreateSetting, type Store } from '../../store/store.ts';
import { secretsOf } from '../data_directory.ts';

export interface RepairLine {
  readonly action: 'catalogs.repair' | 'metadata_store.repair';
  readonly target?: string;
  readonly objectId?: string;
  readonly details: Readonly<Record<string, unknown>>;
}

export class RepairAudit {
  readonly #store: Store;
  readonly #dataDirectory: string;
  readonly #settings: Settings;
  #opened: Promise<{ readonly trail: AuditTrail; readonly journal: AuditJournal }> | undefined;

  constructor(settings: Settings, store: Store, dataDirectory: string) {
    this.#settings = settings;
    this.#store = store;
    this.#dataDirectory = dataDirectory;
  }

  /**
   * Call it before files are changed. Throws SecretKeyError if events cannot be signed, StoreBehind if acknowledged changes are
   * missing: events written now would hide the loss.
   */
  async ready(): Promise<void> {
    await this.#open();
  }

  /** Writes the change and its event in one transaction. */
  async write(line: RepairLine, change?: (tx: Transaction<Schema>) => Promise<unknown>): Promise<void> {
    const { trail } = await this.#open();
    const { action, target, objectId, details } = line;
    const actor = { ...systemActor, action, ...(target === undefined ? {} : { target }) };
    await this.#store.transaction(async (tx) => {
      await change?.(tx);
      await trail.append(tx, actor, { outcome: '0', objectId, details: { command: 'check', ...details } });
    });
  }

  async close(): Promise<void> {
    const opened = await this.#opened?.catch(() => undefined);
    opened?.journal.close();
  }

  #open() {
    this.#opened ??= this.#make();
    return this.#opened;
  }

  async #make() {
    const store = this.#store;
    const secrets = await secretsOf(this.#settings, store, this.#dataDirectory);
    const serverId = await getOrCreateSetting(store, serverIdSetting, randomUUID);
    const journal = await AuditJournal.open(this.#dataDirectory, store);
    const { auditRetentionDays: retentionDays } = this.#settings;
    const key = auditKeyOf(secrets);
    return {
      trail: new AuditTrail({ store, serverId, key, retentionDays, journal, observe: () => undefined }),
      journal,
    };
  }
}
