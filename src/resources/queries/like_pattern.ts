// Matches SQL LIKE patterns on names in memory: `%` any text, `_` one character, `\` escapes the next character; case-insensitive.
// The time is bounded by the product of the two lengths, which an equivalent regular expression would not guarantee.

const anyText = Symbol('%');
const oneCharacter = Symbol('_');
type Token = string | typeof anyText | typeof oneCharacter;

export function likePattern(pattern: string): (text: string) => boolean {
  const tokens = tokensOf(pattern);
  return (text) => matches(tokens, [...text.toLowerCase()]);
}

function tokensOf(pattern: string): Token[] {
  const tokens: Token[] = [];
  let isEscaped = false;
  for (const character of pattern.toLowerCase()) {
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
