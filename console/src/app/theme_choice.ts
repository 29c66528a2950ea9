// Light, dark, or what the system says; remembered in local storage, which may hold preferences but no secret. The documentation, which has no
// React, uses it too.

export const themeChoices = ['system', 'light', 'dark'] as const;
export type ThemeChoice = (typeof themeChoices)[number];

const storageKey = 'tabularium.theme';
const systemIsDark = matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set<() => void>();
let choice: ThemeChoice = stored();

function stored(): ThemeChoice {
  try {
    const text = localStorage.getItem(storageKey);
    return themeChoices.find((known) => known === text) ?? 'system';
  } catch {
    return 'system';
  }
}

export const chosenTheme = (): ThemeChoice => choice;
export const isDark = (): boolean => choice === 'dark' || (choice === 'system' && systemIsDark.matches);

function apply(): void {
  document.documentElement.dataset.theme = isDark() ? 'dark' : 'light';
  for (const listener of listeners) listener();
}

export function chooseTheme(next: ThemeChoice): void {
  choice = next;
  try {
    localStorage.setItem(storageKey, next);
  } catch {
    // Not remembered.
  }
  apply();
}

/** Before the first render, so that the page never flashes in the other theme. */
export function startTheme(): void {
  systemIsDark.addEventListener('change', apply);
  apply();
}

/** Returns the function that ends it. */
export function onThemeChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
