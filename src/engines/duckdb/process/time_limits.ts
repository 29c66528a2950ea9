// Time limits of calls to an engine process that have no limit of their own.

export const shortTimeoutMs = 60_000;
export const changeTimeoutMs = 24 * 3600 * 1000;
