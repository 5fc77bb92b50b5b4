import type { Cluster } from './cluster.ts';
import type { SentRequest } from './load.ts';
import type { Outages } from './outages.ts';
import { isFailedByVendor } from './storms.ts';

/** A circuit that a storm opened, and what remembers failures, take this long until they are as before. */
const AFTER_STORM_MS = 15_000;
/** A disk that is well again is tried after 250 ms, see retryDelay.ts; and a request takes a moment to get there. */
const AFTER_DISK_MS = 500;
/** A restarted proxy, or one whose control plane is back, is as before after this long. */
const AFTER_OUTAGE_MS = 5_000;
const VENDORS_CODES = new Set(['upstream_error', 'upstream_timeout']);

export interface Reasons {
  /** Of the vendor. */
  readonly storms: Outages;
  /** When the control plane was slow. */
  readonly slowAnswers: Outages;
}

/** What an outcome comes of; undefined if nothing explains it, which is wrong. */
export function explain(
  { proxies, controlPlanes, postgres }: Cluster,
  { storms, slowAnswers }: Reasons,
  { request, end, status, code, proxy: name, startedAt, endedAt }: SentRequest,
): string | undefined {
  if (end === 'whole' || end === 'left') return end;
  if (isFailedByVendor(request.headers) && code !== 'internal_error') return 'the vendor failed it';
  const proxy = proxies.find((one) => one.name === name);
  const isOut = proxy?.outages.overlap(startedAt, endedAt) === true;
  if (status === 0 || end === 'cut' || code === 'shutting_down')
    return isOut ? `${status === 0 ? 'no answer' : 'cut'}: its proxy was out` : undefined;
  if (code === 'usage_backlog')
    return proxy?.outages.overlap(startedAt, endedAt, AFTER_DISK_MS) ? 'no disk for its proxy' : undefined;
  if (code !== undefined && VENDORS_CODES.has(code)) {
    if (storms.overlap(startedAt, endedAt, AFTER_STORM_MS)) return `${code} in a storm`;
    return isOut ? `${code}: its proxy was out` : undefined;
  }
  const sources = [...controlPlanes, ...(postgres ? [postgres] : []), ...(proxy ? [proxy] : [])];
  const areOut = sources.some(({ outages }) => outages.overlap(startedAt, endedAt, AFTER_OUTAGE_MS));
  // A proxy that was killed may not have stored a key of this minute.
  if (code === 'control_plane_unreachable')
    return areOut ? 'a new key in an outage of what knows it' : undefined;
  if (code === 'budget_unavailable') {
    if (areOut) return 'no lease in an outage of what grants it';
    return slowAnswers.overlap(startedAt, endedAt) ? 'no lease while the control plane was slow' : undefined;
  }
  return undefined;
}
