// What searches look for in texts, always case-insensitive: LIKE patterns of names (`%` any text, `_` one character, `\` escapes the next
// character), and parts of long texts. Databases and regular expressions take the product of both lengths or more, so nothing else
// compares texts with what callers look for.

const anyText = Symbol('%');
const oneCharacter = Symbol('_');
type Token = string | typeof anyText | typeof oneCharacter;

/** A letter has the same form wherever it appears: in lower case, a sigma at the end of a word has another one. */
const fold = (text: string): string => text.toLowerCase().replaceAll('ς', 'σ');

/** For names: the time is bounded by the product of the two lengths. */
export function likePattern(pattern: string): (text: string) => boolean {
  const tokens = tokensOf(pattern);
  return (text) => matches(tokens, [...fold(text)]);
}

function tokensOf(pattern: string): Token[] {
  const tokens: Token[] = [];
  let isEscaped = false;
  for (const character of fold(pattern)) {
    if (!isEscaped && character === '\\') {
      isEscaped = true;
      continue;
    }
    if (isEscaped) tokens.push(character);
    else if (character === '%') tokens.push(anyText);
    else tokens.push(character === '_' ? oneCharacter : character);
    isEscaped = false;
  }
  if (isEscaped) tokens.push('\\');
  return tokens;
}

/** Only the last `%` needs backtracking: whatever an earlier one could match differently, the last one can match too. */
function matches(tokens: readonly Token[], characters: readonly string[]): boolean {
  let token = 0;
  let position = 0;
  let lastAny = -1;
  let resumeAt = 0;
  while (position < characters.length) {
    const expected = tokens[token];
    if (expected === anyText) {
      lastAny = token++;
      resumeAt = position;
    } else if (expected === oneCharacter || expected === characters[position]) {
      token++;
      position++;
    } else if (lastAny >= 0) {
      token = lastAny + 1;
      position = ++resumeAt;
    } else return false;
  }
  while (tokens[token] === anyText) token++;
  return token === tokens.length;
}

/** V8 finds parts of up to 250 characters in linear time, and longer ones in the product of both lengths. */
const nativeCharactersMax = 200;

/** Whether a text contains the part: in a time that grows with the length of the text only. */
export function containing(part: string): (text: string) => boolean {
  const folded = fold(part);
  const beginning = folded.slice(0, nativeCharactersMax);
  const containsRest = folded === beginning ? () => true : knuthMorrisPratt(folded);
  return (text) => {
    const foldedText = fold(text);
    return foldedText.includes(beginning) && containsRest(foldedText);
  };
}

function knuthMorrisPratt(part: string): (text: string) => boolean {
  // For each beginning of the part, the length of the longest shorter beginning that it ends with.
  const borders = new Uint32Array(part.length);
  const extended = (length: number, unit: number): number => {
    let border = length;
    while (border > 0 && part.charCodeAt(border) !== unit) border = borders[border - 1] ?? 0;
    return part.charCodeAt(border) === unit ? border + 1 : 0;
  };
  for (let i = 1; i < part.length; i++) borders[i] = extended(borders[i - 1] ?? 0, part.charCodeAt(i));
  return (text) => {
    let found = 0;
    for (let i = 0; i < text.length; i++) {
      found = extended(found, text.charCodeAt(i));
      if (found === part.length) return true;
    }
    return false;
  };
}
