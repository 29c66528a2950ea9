// How places for work, such as threads, are shared: whatever the work of one principal takes, and for how long, others find a place.

/**
 * Whether the principal has room for one more. Beyond `placesMax`, as many more places are for principals that have none.
 * @param taken the principals of the work that runs, each as often as it has a place.
 */
export const hasPlace = (taken: readonly string[], principalId: string, placesMax: number): boolean =>
  taken.length < placesMax || (taken.length < placesMax * 2 && !taken.includes(principalId));
