// A process that moves a store and is killed before a step: `killed_migration.ts <from> <to> <step>`.
import { migrateStore } from '../../src/cli/store_migrate/migrate_store.ts';
import { storePlace } from '../../src/cli/store_migrate/store_places.ts';

const [from = '', to = '', last = ''] = process.argv.slice(2);
await migrateStore({
  from: storePlace('--from', from),
  to: storePlace('--to', to),
  keys: {},
  isLocalEngine: () => true,
  onStep: (step) => {
    if (step === last) process.kill(process.pid, 'SIGKILL');
  },
});
