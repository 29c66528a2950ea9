// Statements of other databases about what belongs to the service and to no engine: who may do what, and where it runs.

const nouns = ['user', 'role', 'warehouse', 'catalog'] as const;
type Replacement = readonly [pattern: RegExp, text: string];

/** The endpoint to use instead of each. The patterns match the beginning of the text. */
export const replacementsOfService: readonly Replacement[] = [
  ...nouns.flatMap((noun): readonly Replacement[] => [
    [new RegExp(`^create\\s+(or\\s+replace\\s+)?${noun}\\b`, 'i'), `use POST .../${noun}s to create ${noun}s`],
    [new RegExp(`^alter\\s+${noun}\\b`, 'i'), `use PATCH .../${noun}s/{${noun}} to change ${noun}s`],
    [new RegExp(`^drop\\s+${noun}\\b`, 'i'), `use DELETE .../${noun}s/{${noun}} to drop ${noun}s`],
  ]),
  [/^grant\b/i, 'use POST .../users/{user}/grants or POST .../roles/{role}/grants to grant privileges'],
  [/^revoke\b/i, 'use DELETE .../users/{user}/grants/{grant} or DELETE .../roles/{role}/grants/{grant} to revoke'],
];
