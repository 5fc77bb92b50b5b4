import type { components } from '@weighbridge/client';
import type { Choices } from '../ui/fieldSpecs.ts';
import { api } from './client.ts';

const ALL = { params: { query: { page_size: 500 } } } as const;
const NONE = ['', 'None'] as const;

type Named = readonly { readonly id: string; readonly name: string }[];
type Policy = components['schemas']['Policy'];

const choicesOf = (data: Named | undefined): Choices | undefined =>
  data && [NONE, ...data.map(({ id, name }) => [id, name] as const)];

/** The first 500 policies; undefined until they are known, and for whoever may not read them. */
export function usePolicies({ enabled = true } = {}): readonly Policy[] | undefined {
  return api.useQuery('get', '/api/v1/policies', ALL, { enabled }).data?.data;
}

/** The policies to choose from, by name; undefined until they are known. */
export function usePolicyChoices(): Choices | undefined {
  return choicesOf(usePolicies());
}

export function useTeamChoices(): Choices | undefined {
  return choicesOf(api.useQuery('get', '/api/v1/teams', ALL).data?.data);
}

export function useProfileChoices(): Choices | undefined {
  return choicesOf(api.useQuery('get', '/api/v1/profiles', ALL).data?.data);
}

/** Words of the API as they are. */
export function words(...values: readonly string[]): Choices {
  return values.map((value) => [value, value || 'None'] as const);
}
