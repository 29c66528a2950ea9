// Names of objects as a user writes them: with dots between their parts; a part in double quotes may contain dots.

const part = /\.("(?:[^"]|"")*"(?=\.|$)|[^.]*)/g;

/** The parts, the last of them first: `["orders", "shop"]` of `shop.orders`. */
export function namesIn(text: string): string[] {
  if (text === '.' || text === '..') return [text];
  return [...`.${text}`.matchAll(part)].map(([, written = '']) => unquoted(written)).reverse();
}

const unquoted = (written: string): string =>
  written.startsWith('"') ? written.slice(1, -1).replaceAll('""', '"') : written;
