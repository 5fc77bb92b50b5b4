import type { components } from '@weighbridge/client';
import type { Choices } from '../ui/fieldSpecs.ts';
import type { ChoicesOf } from '../ui/specs.ts';
import { api } from './client.ts';

const ALL = { params: { query: { page_size: 500 } } } as const;
const NONE = ['', 'None'] as const;

type Named = readonly { readonly id: string; readonly name: string }[];
type Policy = components['schemas']['Policy'];

const choicesOf = (data: Named | undefined, before: Choices = []): Choices | undefined =>
  data && [...before, ...data.map(({ id, name }) => [id, name] as const)];

/** The first 500 policies; undefined until they are known, and for whoever may not read them. */
export function usePolicies({ enabled = true } = {}): readonly Policy[] | undefined {
  return api.useQuery('get', '/api/v1/policies', ALL, { enabled }).data?.data;
}

/** The policies to choose from, by name; undefined until they are known. */
export function usePolicyChoices(): Choices | undefined {
  return choicesOf(usePolicies(), [NONE]);
}

/** The resources of these kinds to choose from, by name; undefined until all are known. */
export function useChoicesOf(kinds: readonly string[]): ChoicesOf | undefined {
  const asks = (kind: string) => ({ enabled: kinds.includes(kind) });
  const lists: Readonly<Record<string, Named | undefined>> = {
    policy: usePolicies(asks('policy')),
    profile: api.useQuery('get', '/api/v1/profiles', ALL, asks('profile')).data?.data,
    team: api.useQuery('get', '/api/v1/teams', ALL, asks('team')).data?.data,
  };
  if (kinds.some((kind) => lists[kind] === undefined)) return undefined;
  return Object.fromEntries(kinds.map((kind) => [kind, choicesOf(lists[kind]) ?? []]));
}

/** Words of the API as they are. */
export function words(...values: readonly string[]): Choices {
  return values.map((value) => [value, value || 'None'] as const);
}
