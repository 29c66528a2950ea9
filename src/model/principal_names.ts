// Names that users and roles may not have because they would be taken for principals of the service.
import { nameFault } from './names.ts';

const reserved: ReadonlySet<string> = new Set(['root', 'system']);

/** Letters of other scripts that look like those of the reserved names; NFKC does not fold them. */
const alike: Readonly<Record<string, string>> = {
  г: 'r',
  о: 'o',
  ο: 'o',
  օ: 'o',
  '0': 'o',
  т: 't',
  τ: 't',
  ѕ: 's',
  ꜱ: 's',
  '5': 's',
  у: 'y',
  ү: 'y',
  γ: 'y',
  е: 'e',
  ε: 'e',
  м: 'm',
};

/** What a reader takes a name for: compatibility forms, accents, case and look-alike letters folded. */
function skeleton(name: string): string {
  const plain = name.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase().trim();
  return [...plain].map((letter) => alike[letter] ?? letter).join('');
}

/** Says why a principal cannot have a name that objects may have, or undefined where it can. */
export function principalNameFault(name: string): string | undefined {
  // What no object may be called is refused as that; folding a text of megabytes would hold the thread.
  if (nameFault(name) !== undefined) return undefined;
  if (/[\p{Cf}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}]/u.test(name))
    return 'the name of a user or role has no invisible or bidirectional characters';
  if (reserved.has(skeleton(name)))
    return `${JSON.stringify(name)} reads as a principal of the service; choose another name`;
  return undefined;
}
