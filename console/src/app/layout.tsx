// The frame of every page: the rail of rooms, which is a bar at the bottom of a phone, and the menu of the user.
import { Link, Outlet, useRouterState } from '@tanstack/react-router';
import { BookOpen, CircleUser, LogOut, Monitor, Moon, Search, Sun } from 'lucide-react';
import { Activity, Suspense, useEffect, useRef, useState } from 'react';
import { SignIn } from '../sign_in/sign_in.tsx';
import { Loading } from '../ui/feedback.tsx';
import { Menu } from '../ui/overlays/menu.tsx';
import { useIsConnectionLost } from './connection.ts';
import styles from './layout.module.css';
import { Logo } from './logo.tsx';
import { useRoomTitle } from './page_title.ts';
import { CommandPalette } from './palette/command_palette.tsx';
import { rooms } from './rooms.ts';
import { signOut, useSessionState } from './session.ts';
import { useThemeChoice } from './theme.ts';
import { chooseTheme, type ThemeChoice, themeChoices } from './theme_choice.ts';

/** Ctrl+K opens and closes the palette, wherever the focus is. Its module is not loaded lazily: the next key may follow at once. */
function usePalette() {
  const [state, setState] = useState<{ readonly focusedBefore: Element | null }>();
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== 'k' || event.shiftKey || event.altKey || !(event.ctrlKey || event.metaKey))
        return;
      event.preventDefault();
      event.stopPropagation();
      setState((open) => (open ? undefined : { focusedBefore: document.activeElement }));
    };
    // Before the editor sees the key.
    addEventListener('keydown', onKeyDown, { capture: true });
    return () => removeEventListener('keydown', onKeyDown, { capture: true });
  }, []);
  return { state, open: () => setState({ focusedBefore: document.activeElement }), close: () => setState(undefined) };
}

export function Layout() {
  const state = useSessionState();
  const path = usePath();
  useRoomTitle(state.session ? roomAt(path)?.label : 'Sign in');
  const user = state.session?.user ?? state.expiredUser;
  // After the sign-in has expired, the page and what was entered in it are hidden, and dropped only if another user signs in.
  return (
    <>
      {!state.session && <SignIn reason={state.reason} />}
      {user !== undefined && (
        <Activity key={user} mode={state.session ? 'visible' : 'hidden'}>
          <Frame user={user} />
        </Activity>
      )}
    </>
  );
}

const usePath = (): string => useRouterState({ select: ({ location }) => location.pathname });

function Frame({ user }: { readonly user: string }) {
  const path = usePath();
  const palette = usePalette();
  const list = useRef<HTMLUListElement>(null);
  // On a phone not all rooms fit beside each other.
  // biome-ignore lint/correctness/useExhaustiveDependencies: when another room is opened
  useEffect(() => {
    list.current?.querySelector('[aria-current=page]')?.scrollIntoView({ inline: 'center', block: 'nearest' });
  }, [roomAt(path)]);
  return (
    <div className={styles.layout}>
      <a href="#main" className={styles.skip}>
        Skip to the content
      </a>
      <nav className={styles.rail} aria-label="Rooms">
        <div className={styles.brand} aria-hidden>
          <Logo />
        </div>
        <ul ref={list} className={styles.rooms}>
          <li>
            <button type="button" className={styles.room} title="Command palette (Ctrl+K)" onClick={palette.open}>
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
        <UserMenu user={user} />
      </nav>
      <main id="main" className={styles.main} tabIndex={-1}>
        {/* Rooms begin with level two. */}
        <h1 className="visually-hidden">{roomAt(path)?.label ?? 'Tabularium'}</h1>
        <ConnectionNotice />
        <Suspense fallback={<Loading />}>
          <Outlet />
        </Suspense>
      </main>
      {palette.state && <CommandPalette focusedBefore={palette.state.focusedBefore} onClose={palette.close} />}
    </div>
  );
}

function ConnectionNotice() {
  return (
    useIsConnectionLost() && (
      <p role="status" className={styles.notice}>
        The server does not answer. This page reconnects by itself; what you have entered is still here.
      </p>
    )
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
