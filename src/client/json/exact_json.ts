// JSON with numbers that a double does not hold: whole ones become a BigInt, others keep their text. The service sends 64-bit and wider
// integers and decimals as exact JSON numbers (rest-standard B7).

/** A number that a double would change, as it was sent. */
export class ExactNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  toString(): string {
    return this.text;
  }

  toJSON(): unknown {
    return this.text;
  }
}

/** Fewer digits than these always fit a double, and most answers have no more. */
const manyDigits = /\d[\d.]{15}/;
const wholeNumber = /^-?\d+$/;

/** What a reviver is given besides key and value; not all type definitions have it yet. */
interface Source {
  readonly source?: string;
}

function exactValue(_key: string, value: unknown, context?: Source): unknown {
  const text = context?.source;
  if (typeof value !== 'number' || text === undefined) return value;
  if (wholeNumber.test(text)) return Number.isSafeInteger(value) ? value : BigInt(text);
  return text.length < 16 || String(value) === text ? value : new ExactNumber(text);
}

export const parseExactJson = (text: string): unknown =>
  manyDigits.test(text) ? JSON.parse(text, exactValue) : JSON.parse(text);
