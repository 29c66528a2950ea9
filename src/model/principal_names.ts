// Rejects names of users and roles that could be mistaken for principals of the service.
import { nameFault } from './names.ts';

const reserved: ReadonlySet<string> = new Set(['root', 'system']);

/** Letters of other scripts that look like those of the reserved names, which NFKC does not fold. */
const lookAlikes: Readonly<Record<string, string>> = {
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

/** The visual form of a name: compatibility forms, accents, case and look-alike letters are folded. */
function skeleton(name: string): string {
  const plain = name.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase().trim();
  return [...plain].map((letter) => lookAlikes[letter] ?? letter).join('');
}

/** Returns why a principal cannot have a name that is valid for objects, or undefined if it can. */
export function principalNameFault(name: string): string | undefined {
  // Names that are invalid for all objects are rejected elsewhere; folding a text of megabytes would block the thread.
  if (nameFault(name) !== undefined) return undefined;
  if (/[\p{Cf}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}]/u.test(name))
    return 'the name of a user or role must not contain invisible or bidirectional characters';
  if (reserved.has(skeleton(name)))
    return `${JSON.stringify(name)} looks like the name of a principal of the service; choose another name`;
  return undefined;
}
