// When a schedule runs next, worked out from its cron expression as the server does.
import { CronFault, CronTimes } from '../../../src/model/cron_times.ts';

export type NextTimes =
  | { readonly times: readonly number[]; readonly fault?: undefined }
  | { readonly times?: undefined; readonly fault: CronFault };

/** At most `count` times after `from`, in milliseconds since 1970. */
export function nextTimes(cron: string, timeZone: string, count = 5, from = Date.now()): NextTimes {
  try {
    const schedule = new CronTimes(cron, timeZone);
    const times: number[] = [];
    for (let after: number | undefined = from; times.length < count; times.push(after)) {
      after = schedule.after(after);
      if (after === undefined) break;
    }
    return { times };
  } catch (error) {
    if (error instanceof CronFault) return { fault: error };
    throw error;
  }
}

/** `Mon, 2 Feb 2026, 02:30 GMT+1`, in the time zone of the schedule. */
export function formatRunTime(ms: number, timeZone: string): string {
  return new Intl.DateTimeFormat('en-GB', {
    timeZone,
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    timeZoneName: 'short',
  }).format(ms);
}

export const presets: readonly { readonly cron: string; readonly label: string }[] = [
  { cron: '*/15 * * * *', label: 'Every 15 minutes' },
  { cron: '0 * * * *', label: 'Every hour' },
  { cron: '0 2 * * *', label: 'Every day at 02:00' },
  { cron: '0 7 * * 1-5', label: 'Monday to Friday at 07:00' },
  { cron: '0 6 * * 1', label: 'Every Monday at 06:00' },
  { cron: '0 3 1 * *', label: 'On the first of the month at 03:00' },
];

export const cronLabel = (cron: string): string | undefined => presets.find((preset) => preset.cron === cron)?.label;
