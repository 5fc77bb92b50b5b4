import { NO_SUMS, type StratumSums } from '@weighbridge/domain';
import type { LedgerEvent } from '@weighbridge/ledger';

/** Whoever leaves after so long without a byte of an answer was not given one. */
const PATIENCE_US = 30_000_000;

type Row = LedgerEvent['row'];

/** What an attempt says of its model; undefined where that is nothing, as of an answer that the cache gave. */
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

/** Refusals that say something of the account or the vendor, rather than of what was sent. */
const OWN_REFUSALS = new Set([401, 402, 403, 408, 409, 429]);

/**
 * Whether the model did not do its work. That a vendor finds fault with the request does not count: anybody could push a
 * model out of everybody's choice by requests that cost nothing.
 */
function hasFailed({ outcome, http_status, duration_us, first_byte_us }: Row): boolean {
  if (http_status >= 400 && http_status < 500 && !OWN_REFUSALS.has(http_status)) return false;
  switch (outcome) {
    case 'upstream_error':
    case 'upstream_unreachable':
      return true;
    case 'interrupted':
      // Of an attempt that a process left behind when it died, nobody knows how long it took.
      return duration_us > 0;
    case 'client_gone':
      // A model that keeps everybody waiting must not pass for one of which nothing is known.
      return first_byte_us == null && duration_us >= PATIENCE_US;
    default:
      return false;
  }
}
