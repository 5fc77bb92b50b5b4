import type { ComponentType } from 'react';
import { readsAll, type Whoami } from './session.ts';

/** A page of the console: its path below `/console`, and who finds it in the navigation. */
export interface PageEntry {
  readonly path: string;
  readonly label: string;
  readonly group: 'Spend' | 'Access' | 'Models' | 'Service';
  readonly isFor: (whoami: Whoami) => boolean;
  readonly load: () => Promise<ComponentType>;
}

const all = () => true;
const mayReadKeys = ({ scopes }: Whoami) =>
  scopes.some((scope) => /^(keys:read|operator|admin:read)$/.test(scope));

/** In the order of the navigation. */
export const PAGES: readonly PageEntry[] = [
  {
    path: '/',
    label: 'Overview',
    group: 'Spend',
    isFor: all,
    load: async () => (await import('../pages/Overview.tsx')).Overview,
  },
  {
    path: '/usage',
    label: 'Usage',
    group: 'Spend',
    isFor: all,
    load: async () => (await import('../pages/Usage.tsx')).Usage,
  },
  {
    path: '/requests',
    label: 'Requests',
    group: 'Spend',
    isFor: all,
    load: async () => (await import('../pages/Requests.tsx')).Requests,
  },
  {
    path: '/keys',
    label: 'Keys',
    group: 'Access',
    isFor: mayReadKeys,
    load: async () => (await import('../pages/Keys.tsx')).Keys,
  },
  {
    path: '/teams',
    label: 'Principals & teams',
    group: 'Access',
    isFor: (whoami) => readsAll(whoami) || whoami.roles.includes('lead'),
    load: async () => (await import('../pages/Teams.tsx')).Teams,
  },
  {
    path: '/policies',
    label: 'Policies',
    group: 'Access',
    isFor: readsAll,
    load: async () => (await import('../pages/Policies.tsx')).Policies,
  },
  {
    path: '/overrides',
    label: 'Overrides',
    group: 'Access',
    isFor: (whoami) => readsAll(whoami) || whoami.roles.includes('lead'),
    load: async () => (await import('../pages/Overrides.tsx')).Overrides,
  },
  {
    path: '/models',
    label: 'Models & prices',
    group: 'Models',
    isFor: all,
    load: async () => (await import('../pages/Models.tsx')).Models,
  },
  {
    path: '/playground',
    label: 'Playground',
    group: 'Models',
    isFor: all,
    load: async () => (await import('../pages/Playground.tsx')).Playground,
  },
  {
    path: '/connectors',
    label: 'Connectors',
    group: 'Models',
    isFor: readsAll,
    load: async () => (await import('../pages/Connectors.tsx')).Connectors,
  },
  {
    path: '/profiles',
    label: 'Profiles & evidence',
    group: 'Models',
    isFor: readsAll,
    load: async () => (await import('../pages/Profiles.tsx')).Profiles,
  },
  {
    path: '/webhooks',
    label: 'Alerts & webhooks',
    group: 'Service',
    isFor: readsAll,
    load: async () => (await import('../pages/Webhooks.tsx')).Webhooks,
  },
  {
    path: '/health',
    label: 'Health',
    group: 'Service',
    isFor: readsAll,
    load: async () => (await import('../pages/Health.tsx')).Health,
  },
  {
    path: '/audit',
    label: 'Audit',
    group: 'Service',
    isFor: readsAll,
    load: async () => (await import('../pages/Audit.tsx')).Audit,
  },
  {
    path: '/connect',
    label: 'Connect a client',
    group: 'Service',
    isFor: all,
    load: async () => (await import('../pages/Connect.tsx')).Connect,
  },
];
