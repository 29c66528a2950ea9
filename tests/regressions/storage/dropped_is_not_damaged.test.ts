// The file of a catalog may be removed while its position is measured, because the catalog is dropped. It was then reported as damaged: a
// later statement on another catalog with that name was answered 503 CATALOG_DAMAGED.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import { CatalogGuard } from '../../../src/engines/catalog_guard.ts';
import { catalogFile, catalogsDirectory } from '../../../src/engines/duckdb/storage/catalog_files.ts';
import { duckdbStorage } from '../../../src/engines/duckdb/storage/file_position.ts';
import type { CatalogStorage, DamagedCatalog, RecordedPosition } from '../../../src/engines/port/catalog_storage.ts';

const catalog = { id: 'c', name: 'shop' };

for (const moment of ['while it is dropped', 'when it has been dropped'] as const)
  test(`a file that is missing ${moment} is not reported as damaged`, async (t) => {
    const dataDirectory = mkdtempSync(join(tmpdir(), 'tabularium-dropped-'));
    t.after(() => rmSync(dataDirectory, { recursive: true, force: true }));
    mkdirSync(catalogsDirectory(dataDirectory));
    const file = catalogFile(dataDirectory, catalog);
    const instance = await DuckDBInstance.create(':memory:');
    const connection = await instance.connect();
    await connection.run(`ATTACH '${file}' AS c; CREATE TABLE c.t (i INT); DETACH c`);
    connection.closeSync();
    instance.closeSync();

    // The real measurement, after the file was removed.
    const gate = Promise.withResolvers<void>();
    const started = Promise.withResolvers<void>();
    const measured = Promise.withResolvers<void>();
    const storage: CatalogStorage = {
      ...duckdbStorage,
      async position(...parameters) {
        started.resolve();
        await gate.promise;
        return duckdbStorage.position(...parameters).finally(measured.resolve);
      },
    };
    const recorded = new Map<string, RecordedPosition>();
    const damagedCatalogs: DamagedCatalog[] = [];
    const guard = new CatalogGuard({
      dataDirectory,
      storage,
      records: {
        load: async () => recorded,
        isEmpty: async () => false,
        save: async (positions) => {
          for (const [id, position] of positions) recorded.set(id, position);
        },
      },
      onDamage: (damaged) => damagedCatalogs.push(damaged),
      changed: () => undefined,
      failed: (error) => assert.fail(String(error)),
    });
    guard.reported({ kind: 'attached', catalog, identity: 'i' });
    await started.promise;
    await guard.detach(catalog, async () => {
      rmSync(file);
      if (moment === 'while it is dropped') {
        gate.resolve();
        await measured.promise;
        await new Promise((resolve) => setImmediate(resolve));
        assert.deepEqual(damagedCatalogs, []);
      }
    });
    gate.resolve();
    await guard.stop();
    assert.deepEqual([damagedCatalogs, guard.damaged(), guard.damageOf(catalog.id)], [[], [], undefined]);
  });
