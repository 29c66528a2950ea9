// Numbers, sizes, durations and times as text for people; every number has its unit.
const whole = new Intl.NumberFormat('en');
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const ago = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
const byteUnits = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'] as const;

/** `1,234,567` */
export const formatCount = (value: number | bigint): string => whole.format(value);

/** `1.2M` */
export const formatShortCount = (value: number): string => short.format(value);

/** `1.3 MB`, by powers of 1000. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  for (; value >= 999.5 && unit < byteUnits.length - 1; unit++) value /= 1000;
  return `${unit === 0 || value >= 99.95 ? Math.round(value) : value.toFixed(1)} ${byteUnits[unit]}`;
}

/** `12 ms`, `3.4 s`, `5 min 12 s`, `2 h 5 min` */
export function formatDuration(ms: number): string {
  if (ms < 10) return `${Math.max(0, ms).toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

/** In the time zone and the style of the reader. */
export const formatTime = (iso: string): string => dateTime.format(new Date(iso));

/** `3 minutes ago`, `in 2 hours` */
export function formatAgo(iso: string, now: number = Date.now()): string {
  const seconds = Math.round((Date.parse(iso) - now) / 1000);
  const size = Math.abs(seconds);
  if (size < 60) return ago.format(seconds, 'second');
  if (size < 3600) return ago.format(Math.round(seconds / 60), 'minute');
  if (size < 86_400) return ago.format(Math.round(seconds / 3600), 'hour');
  return ago.format(Math.round(seconds / 86_400), 'day');
}
