// One line on the terminal that shows how far work is: a bar, a text, and the time that is left. Nothing where there is no terminal.
import type { Output } from './output.ts';

export interface ProgressLine {
  /** `fraction`: from 0 to 1, null if unknown. `began`: as of `performance.now()`. */
  show(text: string, fraction: number | null, began: number): void;
  /** Removes the line. */
  end(): void;
}

const barCharacters = 24;
const clearLine = '\r\u001b[2K';

export function progressLine({ isInteractive, columns }: Output): ProgressLine {
  let isShown = false;
  const write = (text: string) => void process.stderr.write(text);
  return {
    show(text, fraction, began) {
      if (!isInteractive) return;
      const line = fraction === null ? text : `${bar(fraction)} ${text}${timeLeft(fraction, began)}`;
      write(`${clearLine}${line.slice(0, columns - 1)}`);
      isShown = true;
    },
    end() {
      if (isShown) write(clearLine);
      isShown = false;
    },
  };
}

function bar(fraction: number): string {
  const full = Math.round(Math.min(1, Math.max(0, fraction)) * barCharacters);
  const percent = `${Math.floor(fraction * 100)}%`.padStart(4);
  return `${'█'.repeat(full)}${'░'.repeat(barCharacters - full)} ${percent}`;
}

function timeLeft(fraction: number, began: number): string {
  const seconds = (performance.now() - began) / 1000;
  if (fraction < 0.02 || fraction >= 1 || seconds < 2) return '';
  return `, ${durationText((seconds * (1 - fraction)) / fraction)} left`;
}

/** `12 s`, `3 min 20 s`, `2 h 5 min`. */
function durationText(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

const units = ['B', 'kB', 'MB', 'GB', 'TB'];

export function bytesText(bytes: number): string {
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  return `${(bytes / 1000 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
}

/** `began`: as of `performance.now()`. */
export const rateText = (bytes: number, began: number): string =>
  `${bytesText((bytes * 1000) / Math.max(1, performance.now() - began))}/s`;
