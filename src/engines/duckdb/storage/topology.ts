// Where DuckDB stores data: a warehouse has one backend, the processes of the server, which stores each table as a single tablet, whatever
// `distribution.buckets` requests of a cluster.
import type { Backend, Topology } from '../../port/backends.ts';

export const embedded: Backend = { name: 'embedded', location: 'embedded' };

export const embeddedTopology: Topology = {
  tablets: async () => [{ id: '0', replicas: [{ backend: embedded.name, isAvailable: true }] }],
  tabletCount: (_backend, tableCount) => tableCount(),
};
