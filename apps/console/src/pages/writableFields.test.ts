import { namedFields, type Operation } from '@weighbridge/client';
import { expect, it } from 'vitest';
import type { Resource } from '../ui/dialogs.tsx';
import { specsOf } from '../ui/specs.ts';
import { ALIASES } from './Aliases.tsx';
import { CONNECTORS } from './Connectors.tsx';
import { KEYS } from './Keys.tsx';
import { OVERRIDES } from './Overrides.tsx';
import { POLICIES } from './Policies.tsx';
import { PRINCIPALS } from './Principals.tsx';
import { PROFILES } from './Profiles.tsx';
import { TEAMS } from './Teams.tsx';
import { WEBHOOKS } from './Webhooks.tsx';

const RESOURCES: readonly Pick<Resource<never>, 'create' | 'update' | 'fields'>[] = [
  ALIASES,
  CONNECTORS,
  KEYS,
  OVERRIDES,
  POLICIES,
  PRINCIPALS,
  PROFILES,
  TEAMS,
  WEBHOOKS,
];

/** Fields that no form has, by operation, and why. */
const WITHOUT_CONTROL: Readonly<Record<string, readonly string[]>> = {
  // Identities of clouds take the command line or a file; Enable and Disable are actions.
  createConnector: ['auth', 'enabled'],
  updateConnector: ['auth', 'enabled'],
  // The form has the day on which it ends.
  createOverride: ['duration_seconds'],
  // Further limits have a page of their own. Where attribution comes from takes the command line or a file.
  createPolicy: ['attribution_headers', 'limits'],
  updatePolicy: ['attribution_headers', 'limits'],
  // The service makes the secret; Pause and Resume are actions.
  createWebhook: ['enabled', 'secret'],
  updateWebhook: ['enabled'],
};

it('each field of a body that the API takes has a control, or a reason why not', () => {
  const hidden = RESOURCES.flatMap(({ create, update, fields }) =>
    [create, update].flatMap((operation: Operation | undefined) => {
      if (!operation) return [];
      const shown = new Set(specsOf(operation, fields).map(({ name }) => name));
      const objects = new Set([...shown].map((name) => name.split('.')[0]));
      const all = namedFields(operation.body, {}).map(({ name }) => name);
      const missing = all.filter((name) => !shown.has(name) && !shown.has(name.split('.')[0] ?? ''));
      const tops = missing.map((name) => (objects.has(name.split('.')[0]) ? name : name.split('.')[0]));
      return missing.length === 0 ? [] : [[operation.id, [...new Set(tops)].sort()] as const];
    }),
  );
  expect(Object.fromEntries(hidden)).toEqual(WITHOUT_CONTROL);
});

it('no form names a field that its operations do not have', () => {
  const unknown = RESOURCES.flatMap(({ create, update, fields }) => {
    const bodies = [create, update].flatMap((one) => (one ? [one.body] : []));
    const names = new Set(
      bodies.flatMap((body) => [...Object.keys(body), ...namedFields(body, {}).map(({ name }) => name)]),
    );
    return Object.keys(fields).filter((name) => !names.has(name));
  });
  expect(unknown).toEqual([]);
});
