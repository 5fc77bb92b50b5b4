import type { IncomingHttpHeaders } from 'node:http';
import { LimitError } from '@weighbridge/budget';
import { parseAttribution } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { policyOf, type RequestObservation } from '../observe/requestObservation.ts';
import type { RequestRefusal } from '../refusals/refusalBook.ts';

/** Keeps a refused request for its row. */
export type NoteRefusal = (refusal: RequestRefusal) => void;

/**
 * Notes a request that this service answered with an error, so that its caller can learn why. Not one without a known key; nor one
 * that its vendors failed, since its attempts say so.
 */
export function noteRefusal(
  note: NoteRefusal,
  observed: RequestObservation,
  error: unknown,
  status: number,
  headers: IncomingHttpHeaders,
): void {
  const { key } = observed;
  if (!key || !isRefusal(observed, error)) return;
  const known = error instanceof AppError ? error : undefined;
  note({
    requestId: observed.id,
    keyId: key.id,
    principalId: key.principalId,
    teamId: key.teamId ?? '',
    policyId: policyOf(observed),
    endpoint: observed.endpoint,
    modelRequested: observed.modelRequested,
    status,
    code: known?.code ?? 'internal_error',
    message: known?.message ?? '',
    attempts: observed.attempts,
    counter: error instanceof LimitError ? error.counter : undefined,
    attribution: () => parseAttribution(headers, key.attribution, observed.saidElsewhere),
  });
}

function isRefusal({ attempts }: RequestObservation, error: unknown): boolean {
  if (!(error instanceof AppError)) return attempts === 0;
  const { kind } = error;
  if (kind === 'authentication' || kind === 'client_gone') return false;
  return attempts === 0 || (kind !== 'upstream' && kind !== 'upstream_timeout');
}
