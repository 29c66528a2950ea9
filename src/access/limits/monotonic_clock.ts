// A clock that never goes back: when the underlying clock is set back, it pauses for that moment and then continues from there, so
// that no wait is prolonged by the difference.

/** Milliseconds since an arbitrary point in time. */
export type Clock = () => number;

export function monotonicClock(clock: Clock = () => performance.now()): Clock {
  let last = clock();
  let correction = 0;
  return () => {
    const now = clock() + correction;
    if (now < last) correction += last - now;
    else last = now;
    return last;
  };
}
