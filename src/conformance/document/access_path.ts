// The parts of a path (rest-standard A1): version, categories, objects and an action, distinguished by their positions, and for the last
// segment by the methods that it has.
import { isPlural } from './plural.ts';

export interface Segment {
  /** `callable`: a last segment in the plural that only POST and PUT have: a category to create in, or an action. */
  readonly kind: 'category' | 'object' | 'action' | 'callable';
  readonly text: string;
  readonly isParameter: boolean;
}

export interface AccessPath {
  readonly segments: readonly Segment[];
  /** What is wrong with the form of the path, before its segments are checked. */
  readonly formProblems: readonly string[];
  /** Where category and object do not alternate. */
  readonly orderProblems: readonly string[];
}

const parameterForm = /^\{[^{}]+\}$/;
const isParameter = (text: string): boolean => parameterForm.test(text);
/** A parameter stands for the version if its name says so. */
const isVersion = (text: string): boolean => /^v\d+$/.test(text) || /^v?\{[^{}]*version[^{}]*\}$/i.test(text);
/** Versions of other forms, which are left out before the segments are judged. */
const versionLike = /^v?\d+(?:[._-]\w+)*$|^v\d\w*$/i;

/**
 * @param template the path as the document has it, without that of the server.
 * @param methods those that the path has: POST and PUT alone make its last segment an action.
 * @param hasBelow whether there are paths below this one, as an action has none.
 */
export function accessPathOf(
  fullPath: string,
  template: string,
  methods: readonly string[],
  hasBelow: boolean,
): AccessPath {
  const texts = fullPath.split('/').slice(1);
  const formProblems: string[] = [];
  if (/[?#]/.test(fullPath)) formProblems.push('has a query or a fragment');
  if (fullPath === '/' || fullPath === '') texts.length = 0;
  if (texts.at(-1) === '') {
    formProblems.push('ends with a slash');
    texts.pop();
  }
  if (texts.includes('')) formProblems.push('has an empty segment');
  const mixed = texts.filter((text) => /[{}]/.test(text) && !isParameter(text) && !isVersion(text));
  if (mixed.length > 0)
    formProblems.push(`mixes text and a parameter in one segment (${mixed.map((text) => `"${text}"`).join(', ')})`);
  const isApi = texts[0] === 'api' && isVersion(texts[1] ?? '');
  if (!isApi) formProblems.push('does not begin with /api/v1 or another version');
  else if (texts.length === 2) formProblems.push('names no category');
  // The prefix of a server that is not /api/{version} has no categories.
  const rest = isApi ? texts.slice(1) : template.split('/').slice(1);
  if (!isApi && rest[0] === 'api') rest.shift();
  if (versionLike.test(rest[0] ?? '') || isVersion(rest[0] ?? '')) rest.shift();
  const isCall = methods.length > 0 && methods.every((method) => method === 'post' || method === 'put');
  return {
    ...segmentsOf(
      rest.filter((text) => text !== ''),
      isCall && !hasBelow,
    ),
    formProblems,
  };
}

function segmentsOf(texts: readonly string[], isCall: boolean): Pick<AccessPath, 'segments' | 'orderProblems'> {
  const segments: Segment[] = [];
  const orderProblems: string[] = [];
  let isCategoryNext = true;
  for (const [index, text] of texts.entries()) {
    const isLast = index === texts.length - 1;
    const segment = (kind: Segment['kind']): Segment => ({ kind, text, isParameter: /[{}]/.test(text) });
    if (isCategoryNext && /[{}]/.test(text)) {
      const before = texts[index - 1];
      orderProblems.push(
        before === undefined
          ? `begins with the object ${text} instead of a category`
          : `has the object ${text} after the object ${before}, without a category between them`,
      );
      segments.push(segment('object'));
      continue;
    }
    const isCalled = isLast && index > 0 && isCall && !/[{}]/.test(text);
    if (isCalled) segments.push(segment(isCategoryNext && isPlural(text) ? 'callable' : 'action'));
    else segments.push(segment(isCategoryNext ? 'category' : 'object'));
    isCategoryNext = !isCategoryNext;
  }
  return { segments, orderProblems };
}
