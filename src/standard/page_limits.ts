// The limits of pages (rest-standard B3).

export const pageSizeDefault = 100;
export const pageSizeMax = 1000;
/** The records of a list; a single one can be larger. */
export const listBytesMax = 8 * 1024 * 1024;
export const pageTokenCharactersMax = 4096;
