// Loaded into the process of each test file: at exit it writes the processor time of the file, including its servers, engines and
// other child processes, to a file for scripts/test.ts.
import { appendFileSync, readFileSync } from 'node:fs';

const ticksPerSecond = 100;

/** Linux includes child processes that were waited for; elsewhere only the process itself is counted. */
function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000 + childrenTicks() * (1000 / ticksPerSecond);
}

function childrenTicks(): number {
  if (process.platform !== 'linux') return 0;
  // The name of the program, in parentheses, can contain spaces. cutime and cstime are fields 16 and 17 of proc_pid_stat(5).
  const fields = readFileSync('/proc/self/stat', 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return Number(fields[13]) + Number(fields[14]);
}

const usageFile = process.env.TEST_USAGE_FILE;
if (usageFile !== undefined)
  process.once('exit', () =>
    appendFileSync(usageFile, `${JSON.stringify({ file: process.argv[1], ms: processorMs() })}\n`),
  );
