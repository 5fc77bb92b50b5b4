import { QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { ApiError } from '@weighbridge/client';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import './styles/base.css';
import { createConsoleRouter } from './app/router.tsx';
import { SESSION_KEY } from './app/session.ts';

const POLL_MS = 30_000;
/** Without any input for so long nothing is asked any more: a page that was left open keeps no session alive. */
const IDLE_MS = 600_000;

let lastInputAt = Date.now();
function noteInput(): void {
  const wasIdle = Date.now() - lastInputAt > IDLE_MS;
  lastInputAt = Date.now();
  if (wasIdle) void queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] === 'get' });
}
for (const event of ['pointerdown', 'keydown', 'wheel'])
  window.addEventListener(event, noteInput, { passive: true });

const isPassing = (error: unknown) =>
  error instanceof ApiError && (error.status === 0 || error.status === 503);

const queries = new QueryClient({
  queryCache: new QueryCache({
    // The session ended, or its key: ask again who is signed in.
    onError: (error, { queryKey }) => {
      if (queryKey === SESSION_KEY || !(error instanceof ApiError) || error.status !== 401) return;
      void queries.invalidateQueries({ queryKey: SESSION_KEY });
    },
  }),
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      // What is looked at stays up to date; a page in the background asks nothing.
      refetchInterval: ({ queryKey }) =>
        queryKey[0] === 'get' && Date.now() - lastInputAt < IDLE_MS ? POLL_MS : false,
      // A failure is shown soon: whoever looks can try again.
      retry: (failures, error) => failures < 1 && isPassing(error),
      retryDelay: 1_000,
      networkMode: 'always',
    },
    mutations: { networkMode: 'always' },
  },
});
const router = createConsoleRouter();

const root = document.getElementById('root');
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  );
}
