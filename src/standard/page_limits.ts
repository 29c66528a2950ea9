// The limits of pages (rest-standard B3).

export const pageSizeDefault = 100;
export const pageSizeMax = 1000;
export const pageTokenCharactersMax = 4096;
