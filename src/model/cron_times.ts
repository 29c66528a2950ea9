// Evaluates cron expressions in a time zone: minutes, hours, days, months and days of the week. A fixed time that daylight saving time
// skips runs at the end of the skipped hour, one that it repeats runs once; intervals (`*`, `*/15`) follow elapsed time.
import { Cron } from 'croner';

const secondMs = 1000;
/** Zone names only: an offset has no daylight saving time. */
const zoneName = /^[A-Za-z][A-Za-z0-9_+-]*(?:\/[A-Za-z0-9_+-]+)*$/;

/** An invalid cron expression or time zone. The message is for the user. */
export class CronFault extends Error {
  override name = 'CronFault';
  readonly field: 'cron' | 'timeZone';
  constructor(field: 'cron' | 'timeZone', message: string) {
    super(message);
    this.field = field;
  }
}

export class CronTimes {
  readonly #cron: Cron;

  /** Throws CronFault. */
  constructor(expression: string, timeZone: string) {
    if (!zoneName.test(timeZone) || !isZone(timeZone))
      throw new CronFault('timeZone', 'must be a time zone of the IANA database, such as Europe/Berlin or UTC');
    try {
      this.#cron = new Cron(expression, { timezone: timeZone, mode: '5-part', fixedTimeRule: 'no-wildcard' });
    } catch {
      throw new CronFault(
        'cron',
        'must be a cron expression with five fields: minute, hour, day of the month, month, day of the week',
      );
    }
  }

  /** The next occurrence after `ms`, or undefined when there is none. All times are in milliseconds since 1970. */
  after(ms: number): number | undefined {
    return this.#cron.nextRun(new Date(ms))?.getTime();
  }

  /** The occurrences from `from` to `until` (both inclusive) in ascending order; at most the last `max`. */
  between(from: number, until: number, max: number): number[] {
    const reference = new Date((Math.floor(until / secondMs) + 1) * secondMs);
    const times = this.#cron.previousRuns(max, reference).map((date) => date.getTime());
    return times.filter((time) => time >= from && time <= until).toSorted((a, b) => a - b);
  }
}

function isZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}
