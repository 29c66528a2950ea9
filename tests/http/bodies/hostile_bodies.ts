// Bodies of a given size and of shapes that are expensive to parse, to check, to report or to store.

const filled = (bytes: number, partOf: (i: number) => string): string => {
  const parts: string[] = [];
  for (let length = 0, i = 0; length < bytes; i++) {
    const part = partOf(i);
    parts.push(part);
    length += part.length + 1;
  }
  return parts.join();
};

/** By name. `field`: one that the API declares. */
export const bodyShapes: Readonly<Record<string, (bytes: number, field: string) => string>> = {
  'unknown members': (bytes) => `{${filled(bytes, (i) => `"k${i}":1`)}}`,
  'members in a field': (bytes, field) => `{"${field}":{${filled(bytes, (i) => `"k${i}":${i}`)}}}`,
  'a wide array in a field': (bytes, field) => `{"${field}":[${filled(bytes, () => '1')}]}`,
  'empty arrays in a field': (bytes, field) => `{"${field}":[${filled(bytes, () => '[]')}]}`,
  'objects in a field': (bytes, field) => `{"${field}":[${filled(bytes, (i) => `{"x${i % 1000}":${i}}`)}]}`,
  'a long string in a field': (bytes, field) => `{"${field}":"${'x'.repeat(bytes)}"}`,
  'escapes in a field': (bytes, field) => `{"${field}":"${'\\"\\u00e9'.repeat(bytes / 8)}"}`,
  'lone surrogates in a field': (bytes, field) => `{"${field}":[${filled(bytes, () => '"\\ud800"')}]}`,
  'one number of very many digits': (bytes, field) => `{"${field}":1${'0'.repeat(bytes)}1}`,
  'wide numbers in a field': (bytes, field) => `{"${field}":[${filled(bytes, (i) => `12345678901234567${i}`)}]}`,
  'deep nesting': (bytes, field) => `{"${field}":${'['.repeat(bytes / 2)}${']'.repeat(bytes / 2)}}`,
  'nesting at the limit': (bytes, field) => `{"${field}":[${filled(bytes, () => '['.repeat(120) + ']'.repeat(120))}]}`,
  'one member many times': (bytes, field) => `{${filled(bytes, () => `"${field}":1`)}}`,
  'an end that is missing': (bytes, field) => `{"${field}":[${filled(bytes, () => '{"a":[1,"b"]}')}`,
  'white space': (bytes, field) => `{"${field}":${' \n'.repeat(bytes / 2)}1}`,
  'no JSON': (bytes) => 'x'.repeat(bytes),
};
