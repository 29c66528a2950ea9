// A server that `SIGUSR2` arms: at the step that the file `fault.json` of its data directory names, it kills a process, by default itself, or stops
// itself until it gets SIGCONT, and writes the name of the step to `struck`. When it is armed, it writes the numbers of steps since it was armed before to
// `armed`. `asked` steps are statements to ClickHouse.
import { channel } from 'node:diagnostics_channel';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
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
  /** By default SIGKILL. */
  readonly signal?: 'SIGKILL' | 'SIGSTOP' | undefined;
}

const statementCharactersMax = 100;

/** Only rows are sent compressed or in parts. */
const statementOf = (body: unknown) =>
  Buffer.isBuffer(body) && body[0] !== gzipMagic ? body.toString('utf8', 0, statementCharactersMax) : 'INSERT of rows';
const gzipMagic = 0x1f;

let victim = process.pid;
let sent: NodeJS.Signals = 'SIGKILL';
const command = serveCommand({
  start: (settings) => {
    const fileOf = (name: string) => join(settings.dataDir, name);
    const plan = new FaultPlan((_fault, call) => {
      writeFileSync(fileOf('struck'), call);
      process.kill(victim, sent);
    });
    channel('undici:request:create').subscribe((message) => {
      plan.reach('asked', statementOf((message as { readonly request: { readonly body?: unknown } }).request.body));
    });
    process.on('SIGUSR2', () => {
      const {
        fault,
        pid = process.pid,
        signal = 'SIGKILL',
      } = JSON.parse(readFileSync(fileOf('fault.json'), 'utf8')) as ArmedFault;
      victim = pid;
      sent = signal;
      const armed = JSON.stringify(plan.counts);
      plan.arm(fault);
      writeFileSync(fileOf('armed.new'), armed);
      renameSync(fileOf('armed.new'), fileOf('armed'));
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
