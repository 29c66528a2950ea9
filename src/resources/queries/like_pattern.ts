// SQL LIKE on names that no store is asked for: `%` any text, `_` one character, `\` takes the next as it is; case does not
// count. Time is bounded by the product of the two lengths, which a regular expression of the same meaning would not keep.

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

/** Only the last `%` met is ever tried again: what an earlier one could take differently, it can take too. */
function matches(tokens: readonly Token[], characters: readonly string[]): boolean {
  let token = 0;
  let at = 0;
  let lastAny = -1;
  let resumeAt = 0;
  while (at < characters.length) {
    const wanted = tokens[token];
    if (wanted === anyText) {
      lastAny = token++;
      resumeAt = at;
    } else if (wanted === oneCharacter || wanted === characters[at]) {
      token++;
      at++;
    } else if (lastAny >= 0) {
      token = lastAny + 1;
      at = ++resumeAt;
    } else return false;
  }
  while (tokens[token] === anyText) token++;
  return token === tokens.length;
}
