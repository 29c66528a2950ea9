// A clock that never goes back: where the one below it is set back, it stands still for that moment and then goes on. Nobody
// then waits for a time that has been before.

/** In milliseconds from anywhere. */
export type Clock = () => number;

export function monotonicClock(clock: Clock = () => performance.now()): Clock {
  let last = clock();
  let behind = 0;
  return () => {
    const now = clock() + behind;
    if (now < last) behind += last - now;
    else last = now;
    return last;
  };
}
