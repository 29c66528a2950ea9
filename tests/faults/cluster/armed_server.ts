// A server that `SIGUSR2` arms: at the step that the file `fault.json` of its data directory names, it kills a process, by default itself, and writes
// the name of the step to `struck`. It writes `armed` when it is.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { serveCommand } from '../../../src/cli/serve.ts';
import { startServer } from '../../../src/main.ts';
import { readSettings } from '../../../src/settings/read_settings.ts';
import { type Fault, FaultPlan } from '../injection/fault_plan.ts';
import { faultyEngine } from '../injection/faulty_engine.ts';

export interface ArmedFault {
  readonly fault: Fault;
  /** The process to kill; by default the server. */
  readonly pid?: number | undefined;
}

let victim = process.pid;
const command = serveCommand({
  start: (settings) => {
    const fileOf = (name: string) => join(settings.dataDir, name);
    const plan = new FaultPlan((_fault, call) => {
      writeFileSync(fileOf('struck'), call);
      process.kill(victim, 'SIGKILL');
    });
    process.on('SIGUSR2', () => {
      const { fault, pid = process.pid } = JSON.parse(readFileSync(fileOf('fault.json'), 'utf8')) as ArmedFault;
      victim = pid;
      plan.arm(fault);
      writeFileSync(fileOf('armed'), '');
    });
    return startServer(settings, {
      injectStore: ({ sql }) => plan.reach('store', sql),
      wrapEngine: (engine) => faultyEngine(engine, { plan }),
    });
  },
});
process.umask(0o077);
const settings = readSettings(process.argv.slice(2), process.env, command.name);
await command.run(settings, (line) => void process.stdout.write(`${line}\n`));
