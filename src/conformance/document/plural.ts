// Whether an English noun is plural, by its ending and lists of exceptions. In doubt it is: a rule must not report what may be right.

/** Plurals that do not end in s. */
const irregular = new Set(
  'people children men women feet teeth geese mice oxen data media criteria phenomena indicia strata schemata alumni fungi nuclei radii stimuli cacti foci loci syllabi sheep fish deer aircraft spacecraft offspring dice errata addenda corpora genera memoranda quanta spectra automata vertebrae formulae antennae'.split(
    ' ',
  ),
);
/** Words in s that are singular. */
const singular = new Set(
  'alias atlas bias bus campus canvas census chaos chorus circus consensus corpus cosmos focus gas genius iris lens locus minus nexus plus radius status surplus virus analysis axis basis crisis diagnosis emphasis hypothesis oasis synopsis synthesis thesis https dns tls css ios sms aws us'.split(
    ' ',
  ),
);

/** @param word one word, of any case. */
export function isPlural(text: string): boolean {
  const word = (text.split(/[_\-. ]|(?<=[a-z0-9])(?=[A-Z])/).at(-1) ?? '').toLowerCase();
  if (irregular.has(word) || /(men|people|children|data|media)$/.test(word)) return true;
  return word.endsWith('s') && !word.endsWith('ss') && !singular.has(word);
}
