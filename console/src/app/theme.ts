// The theme for components.
import { useSyncExternalStore } from 'react';
import { chosenTheme, isDark, onThemeChange, type ThemeChoice } from './theme_choice.ts';

export const useThemeChoice = (): ThemeChoice => useSyncExternalStore(onThemeChange, chosenTheme);
export const useIsDark = (): boolean => useSyncExternalStore(onThemeChange, isDark);
