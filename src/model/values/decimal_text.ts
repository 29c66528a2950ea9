// Exact decimal numbers as digits, parsed from text without a conversion to double.

export interface DecimalText {
  readonly negative: boolean;
  /** Digits before the point, without leading zeros; empty for less than 1. */
  readonly whole: string;
  /** Digits after the point, without trailing zeros. */
  readonly fraction: string;
}

/** No logical type reaches this exponent; a larger one must not produce a text of a million zeros. */
const exponentMax = 400;

/** Parses the text of a JSON number. Returns undefined if it is not a number, or if its exponent exceeds every type. */
export function parseDecimal(text: string): DecimalText | undefined {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text);
  if (!match) return undefined;
  const [, sign, wholeDigits = '', fractionDigits = '', exponentText = '0'] = match;
  const digits = wholeDigits + fractionDigits;
  const exponent = Number(exponentText);
  if (Math.abs(exponent) > exponentMax) {
    return /[1-9]/.test(digits) ? undefined : { negative: false, whole: '', fraction: '' };
  }
  const point = wholeDigits.length + exponent;
  const integerPart = point <= 0 ? '' : digits.slice(0, point).padEnd(point, '0');
  const fraction = point >= digits.length ? '' : digits.slice(Math.max(0, point)).padStart(digits.length - point, '0');
  const number = { whole: integerPart.replace(/^0+/, ''), fraction: trimTrailingZeros(fraction) };
  return { negative: sign === '-' && number.whole + number.fraction !== '', ...number };
}

/** Not a regular expression: it would restart at each zero of a long number. */
function trimTrailingZeros(digits: string): string {
  let end = digits.length;
  while (digits.charCodeAt(end - 1) === 48) end--;
  return digits.slice(0, end);
}

/** Plain digits without an exponent, as every engine reads them: `-123.45`. */
export function formatDecimal({ negative, whole, fraction }: DecimalText): string {
  return `${negative ? '-' : ''}${whole || '0'}${fraction ? `.${fraction}` : ''}`;
}
