// Times of a cron expression in a time zone: minutes, hours, days, months and days of the week. A fixed time that summer time leaves
// out is moved to the hour's end, one that comes twice counts once; intervals (`*`, `*/15`) go on with the clock of the world.
import { Cron } from 'croner';

const secondMs = 1000;
/** Names only: an offset knows no summer time. */
const zoneName = /^[A-Za-z][A-Za-z0-9_+-]*(?:\/[A-Za-z0-9_+-]+)*$/;

/** What is wrong with an expression or a zone; for whoever wrote it. */
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
      throw new CronFault('timeZone', 'is no time zone of the IANA database, such as Europe/Berlin or UTC');
    try {
      this.#cron = new Cron(expression, { timezone: timeZone, mode: '5-part', fixedTimeRule: 'no-wildcard' });
    } catch {
      throw new CronFault(
        'cron',
        'is no cron expression of five fields: minute, hour, day of the month, month, day of the week',
      );
    }
  }

  /** The first one later than that; undefined where none ever comes. In milliseconds since 1970, as all times here. */
  after(ms: number): number | undefined {
    return this.#cron.nextRun(new Date(ms))?.getTime();
  }

  /** Those from `from` to `until`, both included, in their order; of many the last `max`. */
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
