// The entry: the providers around the router, and what happens when somebody else signs in.
import './arrival.ts';
import { CSPProvider } from '@base-ui/react/csp-provider';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import '../ui/theme.css';
import { objectsStore } from '../explorer/objects_store.ts';
import { Toasts } from '../ui/overlays/toasts.tsx';
import { TooltipProvider } from '../ui/overlays/tooltip.tsx';
import { cspNonce } from './csp_nonce.ts';
import { queryClient } from './queries.ts';
import { router } from './router.tsx';
import { onSessionChange, sessionUser } from './session.ts';
import { startTheme } from './theme_choice.ts';

startTheme();

let user = sessionUser();
onSessionChange((next) => {
  if (next === undefined) return;
  // What one user has read is not for the next; failures from before the sign-in are tried again.
  if (user !== undefined && user !== next) {
    queryClient.clear();
    objectsStore.refresh();
  } else {
    void queryClient.invalidateQueries();
    objectsStore.retryFailed();
  }
  user = next;
});

const container = document.getElementById('root');
if (container === null) throw new Error('index.html has no element for the console');
createRoot(container).render(
  <StrictMode>
    <CSPProvider nonce={cspNonce}>
      <QueryClientProvider client={queryClient}>
        <TooltipProvider delay={500}>
          <RouterProvider router={router} />
          <Toasts />
        </TooltipProvider>
      </QueryClientProvider>
    </CSPProvider>
  </StrictMode>,
);
