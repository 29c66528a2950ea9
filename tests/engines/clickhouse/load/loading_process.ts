// A process that loads a file on ClickHouse nodes, to be killed: its only argument is a LoadOrder as JSON. It prints a line when it begins.
import { randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FileLoad } from '../../../../src/engines/port/load.ts';
import { admissionRequest } from '../../../admission_request.ts';
import { spec } from '../../../conformance/engine/engine_world.ts';
import { accessTo, engineOn } from '../engine.ts';

export interface LoadOrder {
  readonly urls: readonly string[];
  readonly cluster: string;
  readonly load: FileLoad;
}

const { urls, cluster, load } = JSON.parse(process.argv[2] as string) as LoadOrder;
const nodes = urls.map((url) => ({ url }));
const warehouse = engineOn(accessTo(nodes, cluster), nodes).open({
  name: 'loading',
  spec: { ...spec, engine: 'clickhouse' },
  dataDirectory: join(tmpdir(), randomUUID()),
  spoolDirectory: tmpdir(),
  observe: () => undefined,
  catalogs: async () => [],
});
await warehouse.start();
console.log('begins');
await warehouse.load(load, { ...admissionRequest, signal: new AbortController().signal });
await warehouse.stop();
