// Whether a media query applies, for what a style sheet cannot leave out, such as the columns of a table on a phone.
import { useSyncExternalStore } from 'react';

const phone = matchMedia('(max-width: 720px)');

const subscribe = (listener: () => void) => {
  phone.addEventListener('change', listener);
  return () => phone.removeEventListener('change', listener);
};

/** As in the style sheets: at most 720 px wide. */
export const useIsNarrow = (): boolean => useSyncExternalStore(subscribe, () => phone.matches);
