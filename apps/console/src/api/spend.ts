import type { UseQueryResult } from '@tanstack/react-query';
import type { components, operations } from '@weighbridge/client';
import { api } from './client.ts';

export type SpendQuery = NonNullable<operations['getSpend']['parameters']['query']>;
export type SpendReport = components['schemas']['SpendReport'];

/** A report of spend. As text it would be CSV, which only another `Accept` asks for. */
export function useSpend(query: SpendQuery): UseQueryResult<SpendReport, unknown> {
  return api.useQuery('get', '/api/v1/spend', { params: { query } }) as UseQueryResult<SpendReport, unknown>;
}
