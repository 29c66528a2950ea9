// The current time, for texts such as `3 minutes ago` that must not become stale while the page is open.
import { useEffect, useState } from 'react';

/** In milliseconds since 1970; renders again after each interval. */
export function useNow(everyMs: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
