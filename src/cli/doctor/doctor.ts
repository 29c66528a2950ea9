// The command `doctor`: checks the configuration, the machine and the data of a server, and says what is wrong and what to do.
import type { Command } from '../command.ts';
import type { DoctorParts } from './doctor_parts.ts';
import { type Finding, good, wrong } from './finding.ts';

const marks: Readonly<Record<Finding['state'], string>> = { good: 'good   ', wrong: 'WRONG  ', skipped: 'skipped' };

export function doctorCommand(parts: DoctorParts): Command {
  return {
    name: 'doctor',
    doc: 'Checks the settings, the machine and the data of a server: Node.js, modes of files, disk, port, confinement, store, catalogs, key, clock and cluster servers. Says what is wrong and what to do, and ends with 1 if something is. It accepts the settings of `serve`; the store and the catalogs are read if the server is stopped.',
    settings: 'all',
    examples: ['tabularium doctor', 'tabularium doctor --config /etc/tabularium/config.json --json'],
    acceptsInvalidSettings: true,
    run: async (settings, print, _argument, invalid = []) => {
      const { examine } = await import('./examine.ts');
      const findings = [
        ...invalid.map(({ message }) => wrong('settings', message)),
        ...(await examine(settings, parts)),
      ];
      if (invalid.length === 0) findings.unshift(good('settings', 'the settings are valid'));
      for (const { check, state, message } of findings) print(`${marks[state]}  ${check.padEnd(14)}  ${message}`);
      const count = findings.filter(({ state }) => state === 'wrong').length;
      print(count === 0 ? 'Nothing is wrong.' : `${count} of ${findings.length} checks found something wrong.`);
      if (count > 0) process.exitCode = 1;
      return { findings };
    },
  };
}
