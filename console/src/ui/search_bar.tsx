// The search field above a list, with buttons at its end. Escape empties it.
import { Search, X } from 'lucide-react';
import type { ReactNode } from 'react';
import { IconButton } from './button.tsx';
import styles from './search_bar.module.css';

interface SearchBarProps {
  readonly label: string;
  readonly text: string;
  readonly onChange: (text: string) => void;
  readonly children?: ReactNode;
}

export function SearchBar({ label, text, onChange, children }: SearchBarProps) {
  return (
    <div className={styles.search}>
      <Search aria-hidden />
      <input
        type="search"
        aria-label={label}
        placeholder={label}
        value={text}
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={(event) => event.key === 'Escape' && onChange('')}
      />
      {text !== '' && (
        <IconButton size="small" label="Clear the search" onClick={() => onChange('')}>
          <X aria-hidden />
        </IconButton>
      )}
      {children}
    </div>
  );
}
