// The frame of every page: the rail of rooms, which is a bar at the bottom of a phone, and the menu of the user.
import { Link, Outlet, useRouterState } from '@tanstack/react-router';
import { BookOpen, CircleUser, LogOut, Monitor, Moon, Search, Sun } from 'lucide-react';
import { lazy, Suspense, useEffect, useState } from 'react';
import { SignIn } from '../sign_in/sign_in.tsx';
import { Loading } from '../ui/feedback.tsx';
import { Menu } from '../ui/overlays/menu.tsx';
import styles from './layout.module.css';
import { Logo } from './logo.tsx';
import { rooms } from './rooms.ts';
import { signOut, useSessionState } from './session.ts';
import { useThemeChoice } from './theme.ts';
import { chooseTheme, type ThemeChoice, themeChoices } from './theme_choice.ts';

const CommandPalette = lazy(async () => ({
  default: (await import('./palette/command_palette.tsx')).CommandPalette,
}));

/** Whether the palette is open; Ctrl+K opens and closes it, wherever the focus is. */
function usePalette() {
  const [isOpen, setIsOpen] = useState(false);
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== 'k' || event.shiftKey || event.altKey || !(event.ctrlKey || event.metaKey))
        return;
      event.preventDefault();
      event.stopPropagation();
      setIsOpen((before) => !before);
    };
    // Before the editor sees the key.
    addEventListener('keydown', onKeyDown, { capture: true });
    return () => removeEventListener('keydown', onKeyDown, { capture: true });
  }, []);
  return { isOpen, setIsOpen };
}

export function Layout() {
  const state = useSessionState();
  const path = useRouterState({ select: ({ location }) => location.pathname });
  const palette = usePalette();
  if (!state.session) return <SignIn reason={state.reason} />;
  return (
    <div className={styles.layout}>
      <a href="#main" className={styles.skip}>
        Skip to the content
      </a>
      <nav className={styles.rail} aria-label="Rooms">
        <div className={styles.brand} aria-hidden>
          <Logo />
        </div>
        <ul className={styles.rooms}>
          <li>
            <button
              type="button"
              className={styles.room}
              title="Command palette (Ctrl+K)"
              onClick={() => palette.setIsOpen(true)}
            >
              <Search aria-hidden />
              <span>Go to</span>
            </button>
          </li>
          {rooms.map(({ path, label, icon: Icon }) => (
            <li key={path}>
              <Link to={`/${path}`} className={styles.room} activeProps={{ 'aria-current': 'page' }}>
                <Icon aria-hidden />
                <span>{label}</span>
              </Link>
            </li>
          ))}
          <li>
            <a href="/console/docs/" target="_blank" rel="noreferrer" className={styles.room}>
              <BookOpen aria-hidden />
              <span>Docs</span>
            </a>
          </li>
        </ul>
        <UserMenu user={state.session.user} />
      </nav>
      <main id="main" className={styles.main} tabIndex={-1}>
        {/* Rooms begin with level two. */}
        <h1 className="visually-hidden">{roomAt(path)?.label ?? 'Tabularium'}</h1>
        <Suspense fallback={<Loading />}>
          <Outlet />
        </Suspense>
      </main>
      {palette.isOpen && (
        <Suspense>
          <CommandPalette onClose={() => palette.setIsOpen(false)} />
        </Suspense>
      )}
    </div>
  );
}

const roomAt = (path: string) => rooms.find((room) => room.path === path.split('/')[1]);

const themeLabels: Readonly<Record<ThemeChoice, string>> = { system: 'As the system', light: 'Light', dark: 'Dark' };
const themeIcons = { system: Monitor, light: Sun, dark: Moon } as const;

function UserMenu({ user }: { readonly user: string }) {
  const theme = useThemeChoice();
  return (
    <Menu
      side="right"
      align="end"
      trigger={
        <button type="button" className={styles.user} aria-label={`Signed in as ${user}`}>
          <CircleUser aria-hidden />
          <span>{user}</span>
        </button>
      }
      items={[
        ...themeChoices.map((choice) => {
          const Icon = themeIcons[choice];
          return {
            label: themeLabels[choice],
            icon: <Icon aria-hidden />,
            isChecked: theme === choice,
            onSelect: () => chooseTheme(choice),
          };
        }),
        'separator',
        { label: 'Sign out', icon: <LogOut aria-hidden />, onSelect: () => void signOut() },
      ]}
    />
  );
}
