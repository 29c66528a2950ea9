// Durations that several modules use, in milliseconds.

export const dayMs = 86_400_000;
