// Asks an engine directly which columns a table has, bypassing the catalog and all checks.
import { join } from 'node:path';
import type { EngineWarehouse } from '../../../src/engines/port/engine.ts';
import { StaleAnalysis } from '../../../src/engines/port/statements.ts';
import { newId } from '../../../src/model/ids.ts';
import type { Services } from '../../../src/resources/records/handler_context.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { admissionRequest } from '../../admission_request.ts';
import { deadlineMs } from '../../deadline.ts';
import { quoted } from '../scenarios/agreement.ts';

const timeoutMs = deadlineMs(30_000);

/** `id BIGINT`, in their order; undefined if the engine has no such table. */
export async function columnsInEngine(
  services: Services,
  engine: () => EngineWarehouse,
  spoolDirectory: string,
  path: readonly string[],
): Promise<string[] | undefined> {
  // Resumes it if it is suspended or has died.
  await services.warehouses.use('default');
  const [catalog] = await services.catalog.require([{ category: 'catalogs', name: 'default' }]);
  if (!catalog) throw new Error('there is no default catalog');
  const statement = { sql: `SELECT * FROM ${quoted(path)} LIMIT 0`, catalog: { id: catalog.id, name: catalog.name } };
  try {
    const analysis = await engine().analyze(statement, admissionRequest);
    const { columns } = await engine().execute(statement, {
      analysis,
      numbers: 'number',
      timeoutMs,
      signal: AbortSignal.timeout(timeoutMs),
      resultPath: join(spoolDirectory, newId()),
      pageBytesMax: 1_000_000,
    });
    return columns.map(({ name, type }) => `${name} ${type}`);
  } catch (error) {
    // A change was recovered in between: reads again.
    if (error instanceof StaleAnalysis) return columnsInEngine(services, engine, spoolDirectory, path);
    if (error instanceof Failure && error.code === 'SQL_INVALID') return undefined;
    throw error;
  }
}
