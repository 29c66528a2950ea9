// A connection for files that no engine process has open: its instance has no data of its own, and ends with the work.
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';

export async function withOfflineConnection<T>(work: (connection: DuckDBConnection) => Promise<T>): Promise<T> {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  try {
    return await work(connection);
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}
