// The routes: one for each room and everything below it, made from the table of rooms.
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from '@tanstack/react-router';
import { Loading } from '../ui/feedback.tsx';
import { NotFound, RoomFailure } from './failures.tsx';
import { Layout } from './layout.tsx';
import { rooms } from './rooms.ts';

const root = createRootRoute({ component: Layout, notFoundComponent: NotFound });

const first = createRoute({
  getParentRoute: () => root,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: `/${rooms[0]?.path}`, replace: true });
  },
});

const routes = rooms.flatMap(({ path, load }) => {
  const component = lazyRouteComponent(load, 'Room');
  return [`/${path}`, `/${path}/$`].map((below) =>
    createRoute({ getParentRoute: () => root, path: below, component, validateSearch: stringsOf }),
  );
});

/** Search parameters are strings; the router would make numbers of those that look like some. */
function stringsOf(search: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(Object.entries(search).map(([name, value]) => [name, String(value)]));
}

export const router = createRouter({
  routeTree: root.addChildren([first, ...routes]),
  basepath: '/console',
  defaultPreload: 'intent',
  defaultPendingComponent: Loading,
  defaultErrorComponent: RoomFailure,
  defaultNotFoundComponent: NotFound,
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const given = Object.entries(search).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, String(value)]],
    );
    return given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
  },
});
