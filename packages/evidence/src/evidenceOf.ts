import { NO_SUMS, type StratumSums } from '@weighbridge/domain';
import type { LedgerEvent } from '@weighbridge/ledger';

/** A client that disconnects after this time without a byte of the response counts as a failure of the model. */
const NO_RESPONSE_US = 30_000_000;

type Row = LedgerEvent['row'];

/** What an attempt tells about its model; undefined if nothing, as for a response from the cache. */
export function evidenceOf({ row }: { readonly row: Row }): StratumSums | undefined {
  if (row.cache_hit) return undefined;
  const costNanoUsd = Number(row.cost_nano_usd);
  if (row.outcome === 'success') {
    const timed = row.first_byte_us ?? undefined;
    return {
      ...NO_SUMS,
      requests: 1,
      successes: 1,
      latencyMs: row.duration_us / 1_000,
      timeToFirstTokenMs: (timed ?? 0) / 1_000,
      timed: timed === undefined ? 0 : 1,
      costNanoUsd,
    };
  }
  return hasFailed(row) ? { ...NO_SUMS, requests: 1, costNanoUsd } : undefined;
}

/** Client error codes that tell about the account or the vendor, rather than about the request. */
const VENDOR_ERRORS = new Set([401, 402, 403, 408, 409, 429]);

/**
 * Whether the model failed. A vendor's rejection of the request itself doesn't count: otherwise anyone could remove a model from
 * everyone's routing with invalid requests, which cost nothing.
 */
function hasFailed({ outcome, http_status, duration_us, first_byte_us }: Row): boolean {
  if (http_status >= 400 && http_status < 500 && !VENDOR_ERRORS.has(http_status)) return false;
  switch (outcome) {
    case 'upstream_error':
    case 'upstream_unreachable':
      return true;
    case 'interrupted':
      // An orphaned attempt of a process that died has no duration, and its outcome is unknown.
      return duration_us > 0;
    case 'client_gone':
      // A model that never responds must not look like one without evidence.
      return first_byte_us == null && duration_us >= NO_RESPONSE_US;
    default:
      return false;
  }
}
