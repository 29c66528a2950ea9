// The mark of Tabularium in the colours of the theme.
export function Logo() {
  return (
    <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden>
      <rect width="32" height="32" rx="7" fill="var(--accent)" />
      <path d="M8 10.5h16M8 16h16M8 21.5h10" stroke="var(--on-accent)" strokeWidth="2.6" strokeLinecap="round" />
    </svg>
  );
}
