import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router';
import { Page, Problem } from '../ui/Page.tsx';
import { formatSearch, parseSearch } from '../ui/search.ts';
import { Layout } from './Layout.tsx';
import { PAGES } from './pages.ts';

const validateSearch = (search: Record<string, unknown>) => search;

export function createConsoleRouter() {
  const root = createRootRoute({
    component: Layout,
    notFoundComponent: () => (
      <Page title="Not found">
        <p>This console has no page at this address. The navigation lists all pages.</p>
      </Page>
    ),
    errorComponent: ({ error, reset }) => (
      <Page title="Error">
        <Problem error={error} onRetry={reset} />
      </Page>
    ),
  });
  const pages = PAGES.map(({ path, load }) =>
    createRoute({
      getParentRoute: () => root,
      path,
      validateSearch,
      component: lazyRouteComponent(async () => ({ default: await load() })),
    }),
  );
  const request = createRoute({
    getParentRoute: () => root,
    path: '/requests/$requestId',
    validateSearch,
    component: lazyRouteComponent(async () => ({
      default: (await import('../pages/OneRequest.tsx')).OneRequest,
    })),
  });
  const limits = createRoute({
    getParentRoute: () => root,
    path: '/policies/$policyId',
    validateSearch,
    component: lazyRouteComponent(async () => ({
      default: (await import('../pages/PolicyLimits.tsx')).PolicyLimits,
    })),
  });
  return createRouter({
    routeTree: root.addChildren([...pages, request, limits]),
    basepath: '/console',
    parseSearch,
    stringifySearch: formatSearch,
    defaultPreload: false,
  });
}
