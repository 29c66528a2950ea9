// The limit of a JSON value in a data file.

/** The largest JSON value of a row. Engines allocate several times as much for each thread. */
export const jsonRowBytesMax = 16 * 1024 * 1024;
