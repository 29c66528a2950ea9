// What a kept object is called among its siblings, so that its name is free.

/** No name can be so, because of the control character. */
export const droppedName = (id: string) => `\u007f${id}`;
