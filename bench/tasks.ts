// Tasks submitted through REST while the runner is busy, each durable when it is acknowledged: the rate of submission, the memory that
// queued tasks use in the server, and the rate at which they are then run.
import { join } from 'node:path';
import { Task } from '../src/client/index.ts';
import { Generator } from './harness/load.ts';
import { residentBytes } from './harness/processes.ts';
import type { Bench, Measure } from './harness/report.ts';
import { TabulariumServer } from './harness/server.ts';

const submissionsPerSecondMin = 1000;
const residentGrowthMegabytesMax = 50;
const connections = 16;
const path = '/api/v2/catalogs/default/query';
const endless = 'SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b';

export const bench: Bench = {
  name: 'tasks',
  claim: `Tasks submitted while 10,000 wait: at least ${submissionsPerSecondMin.toLocaleString('en-US')} a second, durable, and no memory used by those that wait.`,
  async run({ quick, workDirectory, print }) {
    const count = quick ? 1000 : 10_000;
    const flags = ['--task-runners-max', '1', '--principal-tasks-max', '0', '--warehouse-threads', '1'];
    const server = await TabulariumServer.start({ dataDirectory: join(workDirectory, 'data'), pinned: false, flags });
    const generator = new Generator({ pinned: false });
    try {
      const blocker = await submit(server, endless);
      const submitTimed = async (first: number, taskCount: number) => {
        const headers = { ...server.authorization, 'Content-Type': 'application/json' };
        return generator.load({
          port: server.port,
          connections,
          template: { method: 'POST', path, bodies: [JSON.stringify({ sql: 'SELECT 1', waitSeconds: 0 })], headers },
          order: 'once',
          first,
          count: first + taskCount,
          status: 202,
          warmupMs: 0,
          durationMs: 120_000,
        });
      };
      const first = await submitTimed(0, count / 2);
      const before = residentBytes(server.pid);
      const { perSecond, p99Ms } = await submitTimed(count / 2, count / 2);
      const grown = before === undefined ? undefined : ((residentBytes(server.pid) as number) - before) / 1e6;
      print(`  ${perSecond.toFixed(0)} submitted a second, ${first.perSecond.toFixed(0)} before`);
      const last = await submit(server, 'SELECT 2');
      const startMs = performance.now();
      await blocker.cancel();
      await last.done();
      const drained = (count / (performance.now() - startMs)) * 1000;
      print(`  ${drained.toFixed(0)} run a second by one runner`);
      return { measures: measuresOf({ perSecond, p99Ms, grown, drained, count }), notes: [] };
    } finally {
      await Promise.all([server.stop(), generator.stop()]);
    }
  },
};

interface MeasuredTasks {
  readonly perSecond: number;
  readonly p99Ms: number;
  readonly grown: number | undefined;
  readonly drained: number;
  readonly count: number;
}

function measuresOf({ perSecond, p99Ms, grown, drained, count }: MeasuredTasks): Measure[] {
  const rateTarget = { text: `≥ ${submissionsPerSecondMin}`, met: perSecond >= submissionsPerSecondMin };
  const small = { text: `≤ ${residentGrowthMegabytesMax}`, met: (grown ?? 0) <= residentGrowthMegabytesMax };
  const half = (count / 2).toLocaleString('en-US');
  const memory = { what: `resident memory more with ${half} more waiting`, unit: 'MB', target: small };
  return [
    {
      what: `tasks submitted, ${half} waiting before, 16 connections`,
      value: perSecond,
      unit: '/s',
      target: rateTarget,
    },
    { what: '- 99th percentile', value: p99Ms, unit: 'ms' },
    ...(grown === undefined ? [] : [{ ...memory, value: grown }]),
    { what: 'tasks of `SELECT 1` run by one runner', value: drained, unit: '/s' },
  ];
}

async function submit({ client }: TabulariumServer, sql: string): Promise<Task> {
  const task = await client.catalogs('default').query({ sql, waitSeconds: 0 });
  if (!(task instanceof Task)) throw new Error(`a statement did not become a task: ${sql}`);
  return task;
}
