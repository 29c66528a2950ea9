// The rules as a ruleset of Spectral: `extends` names this file of the package, tabularium/spectral. Imports only its own room, so that Spectral
// can bundle it.
import { isOpenApi } from '../document/openapi.ts';
import { findingsOf, rules } from './rules.ts';

/** What Spectral passes to a function: the document, as it is without following references. */
type SpectralFunction = (document: unknown) => { message: string; path: (string | number)[] }[];

export default {
  rules: Object.fromEntries(
    rules.map((rule) => {
      const check: SpectralFunction = (document) =>
        isOpenApi(document) ? findingsOf(rule, document).map(({ message, at }) => ({ message, path: [...at] })) : [];
      return [
        rule.id,
        {
          description: rule.title,
          message: '{{error}}',
          severity: 'error',
          // References are followed by the rules, so that a finding is at the component and is reported once.
          resolved: false,
          given: '$',
          // Spectral takes functions by their names.
          // biome-ignore lint/suspicious/noThenProperty: the format of Spectral
          then: { function: check },
        },
      ];
    }),
  ),
};
