// The search over titles and headings: its index is one file of the server, which is loaded when the field is first used.

interface Entry {
  readonly path: string;
  readonly title: string;
  readonly group: string;
  /** Ids and texts. */
  readonly headings: readonly (readonly [string, string])[];
}

interface Hit {
  readonly href: string;
  readonly text: string;
  /** The page of a heading, or the group of a page. */
  readonly where: string;
  readonly rank: number;
}

const base = '/console/docs/';
const hitsMax = 12;

async function loadIndex(): Promise<readonly Entry[]> {
  const response = await fetch(`${base}search.json`);
  if (!response.ok) throw new Error(`the index of the search is not available: ${response.status}`);
  return (await response.json()) as readonly Entry[];
}

/** Lower is better; undefined: not every word is found. */
function rankOf(text: string, words: readonly string[]): number | undefined {
  const lower = text.toLowerCase().replaceAll('_', ' ');
  if (!words.every((word) => lower.includes(word))) return undefined;
  const [first = ''] = words;
  if (lower === words.join(' ')) return 0;
  if (lower.startsWith(first)) return 1;
  return new RegExp(`\\b${first.replace(/[^\p{L}\p{N}]/gu, '.')}`, 'u').test(lower) ? 2 : 3;
}

function hitsIn(entries: readonly Entry[], query: string): Hit[] {
  const words = query.toLowerCase().replaceAll('_', ' ').split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const hits = entries.flatMap(({ path, title, group, headings }): Hit[] => {
    const rank = rankOf(title, words);
    const pageHit = rank === undefined ? [] : [{ href: base + path, text: title, where: group, rank }];
    const headingHits = headings.flatMap(([id, text]) => {
      const headingRank = rankOf(text, words);
      return headingRank === undefined
        ? []
        : [{ href: `${base}${path}#${id}`, text, where: title, rank: headingRank + 0.5 }];
    });
    return [...pageHit, ...headingHits];
  });
  return hits.sort((a, b) => a.rank - b.rank || a.text.length - b.text.length).slice(0, hitsMax);
}

export function startSearch(
  frame: HTMLElement,
  field: HTMLInputElement,
  list: HTMLUListElement,
  status: HTMLElement,
): void {
  let index: Promise<readonly Entry[]> | undefined;
  const close = () => {
    list.hidden = true;
    list.replaceChildren();
  };
  const show = async () => {
    index ??= loadIndex();
    const query = field.value;
    const hits = await index.then(
      (entries) => hitsIn(entries, query),
      () => {
        index = undefined;
        return undefined;
      },
    );
    if (query !== field.value) return;
    list.replaceChildren(...(hits ?? []).map(itemOf));
    list.hidden = hits === undefined || hits.length === 0;
    status.classList.toggle('visually-hidden', query === '' || !list.hidden);
    if (query === '') status.textContent = '';
    else if (hits === undefined) status.textContent = 'The search is not available.';
    else status.textContent = hits.length === 0 ? 'Nothing found.' : `${hits.length} found.`;
  };
  field.addEventListener('input', () => void show());
  field.addEventListener('focus', () => void show());
  frame.addEventListener('keydown', (event) => {
    const links = [...list.querySelectorAll('a')];
    const at = links.indexOf(document.activeElement as HTMLAnchorElement);
    if (event.key === 'Escape') {
      field.focus();
      close();
    } else if (event.key === 'Enter' && document.activeElement === field) links[0]?.click();
    else if (event.key === 'ArrowDown') links[at + 1]?.focus();
    else if (event.key === 'ArrowUp') (links[at - 1] ?? field).focus();
    else return;
    event.preventDefault();
  });
  frame.addEventListener('focusout', ({ relatedTarget }) => {
    if (!(relatedTarget instanceof Node && frame.contains(relatedTarget))) close();
  });
  list.addEventListener('click', close);
  document.addEventListener('keydown', (event) => {
    const isTyping = event.target instanceof HTMLInputElement;
    if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    field.focus();
  });
  frame.hidden = false;
}

function itemOf({ href, text, where }: Hit): HTMLLIElement {
  const item = document.createElement('li');
  const link = document.createElement('a');
  link.href = href;
  const place = document.createElement('span');
  place.textContent = where;
  link.append(text, place);
  item.append(link);
  return item;
}
