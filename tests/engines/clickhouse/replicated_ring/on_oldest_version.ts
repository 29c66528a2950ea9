// Starts a cluster of 24.8 that replicates on this machine, and runs a command with the variables that name it, such as
// `npm test -- tests/engines/clickhouse/given_cluster`; without a command it prints the variables and runs until it is interrupted
// (CONTRIBUTING.md). `--shards=1,1,2,2`: the shard of each server; by default three replicas of one.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { clusterName, missingOldestVersion, startReplicatedRing } from './replicated_ring.ts';

const { values, positionals } = parseArgs({
  options: { shards: { type: 'string', default: '1,1,1' } },
  allowPositionals: true,
});

async function main(): Promise<number> {
  if (missingOldestVersion !== false) {
    console.error(missingOldestVersion);
    return 1;
  }
  const ring = await startReplicatedRing({ version: '24.8', shards: values.shards.split(',').map(Number) });
  const variables = {
    CLICKHOUSE_TEST_URLS: ring.servers.map(({ url }) => url).join(','),
    CLICKHOUSE_TEST_CLUSTER: clusterName,
  };
  for (const [name, value] of Object.entries(variables)) console.log(`export ${name}=${value}`);
  const [program, ...words] = positionals;
  try {
    if (program === undefined) {
      const held = setInterval(() => {}, 60_000);
      await Promise.race(['SIGINT', 'SIGTERM'].map((signal) => once(process, signal)));
      clearInterval(held);
      return 0;
    }
    const child = spawn(program, words, { stdio: 'inherit', env: { ...process.env, ...variables } });
    const [code] = (await once(child, 'exit')) as [number | null];
    return code ?? 1;
  } finally {
    await ring.close();
  }
}

process.exitCode = await main();
