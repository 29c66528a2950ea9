// The placeholder for the folded name of a dropped object, which frees its name for other objects.

/** Distinct from every valid name, because of the control character. */
export const droppedName = (id: string) => `\u007f${id}`;
