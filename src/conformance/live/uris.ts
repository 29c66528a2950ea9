// The URI in a result (rest-standard A3): of a created object, or of a task.
import { isObject } from '../document/nodes.ts';
import { isUriName } from '../field_names.ts';

const depthMax = 3;
const looksLikeUri = (value: unknown): value is string => typeof value === 'string' && /^(\/|https?:\/\/)./.test(value);

/** The first text in a result that is a URI, those in fields that are called so first; nearer ones first. */
export function uriIn(result: unknown): string | undefined {
  let level: unknown[] = [result];
  let other: string | undefined;
  for (let depth = 0; depth < depthMax && level.length > 0; depth++) {
    const objects = level.filter(isObject);
    for (const object of objects)
      for (const [name, value] of Object.entries(object)) {
        if (!looksLikeUri(value)) continue;
        if (isUriName(name)) return value;
        other ??= value;
      }
    level = objects.flatMap((object) => Object.values(object).flat());
  }
  return other;
}
