import type { Cluster } from './cluster.ts';
import type { CpuWaits } from './cpuWaits.ts';
import type { SentRequest } from './load.ts';
import type { Outages } from './outages.ts';
import { isFailedByVendor } from './storms.ts';

/** A circuit that a storm opened, and what remembers failures, take this long until they are as before. */
const AFTER_STORM_MS = 15_000;
/** A disk that is well again is tried after 250 ms, see retryDelay.ts; and a request takes a moment to get there. */
const AFTER_DISK_MS = 500;
/** A restarted proxy, or one whose control plane is back, is as before after this long. */
const AFTER_OUTAGE_MS = 5_000;
/** Half of the time that a call of a proxy has: what waited that long for a CPU could not answer in time. */
const STARVED_MS = 1_000;
export const POSTGRES = 'Postgres';
const VENDORS_CODES = new Set(['upstream_error', 'upstream_timeout']);

export interface Reasons {
  /** Of the vendor. */
  readonly storms: Outages;
  /** When the control plane was slow. */
  readonly slowAnswers: Outages;
  readonly cpu: CpuWaits;
}

/** How long those on the way of a proxy's call waited for a CPU. */
export function callWaitedMs(
  { controlPlanes }: Cluster,
  cpu: CpuWaits,
  { proxy, startedAt, endedAt }: Pick<SentRequest, 'proxy' | 'startedAt' | 'endedAt'>,
): number {
  const names = [proxy, POSTGRES, ...controlPlanes.map(({ name }) => name)];
  return cpu.waitedMs(names, startedAt, endedAt);
}

/** What an outcome comes of; undefined if nothing explains it, which is wrong. */
export function explain(
  cluster: Cluster,
  { storms, slowAnswers, cpu }: Reasons,
  sent: SentRequest,
): string | undefined {
  const { proxies, controlPlanes, postgres } = cluster;
  const { request, end, status, code, proxy: name, startedAt, endedAt } = sent;
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
  const isStarved = () => callWaitedMs(cluster, cpu, sent) >= STARVED_MS;
  // A proxy that was killed may not have stored a key of this minute.
  if (code === 'control_plane_unreachable') {
    if (areOut) return 'a new key in an outage of what knows it';
    return isStarved() ? 'a new key while the machine had no CPU for it' : undefined;
  }
  if (code === 'budget_unavailable') {
    if (areOut) return 'no lease in an outage of what grants it';
    if (slowAnswers.overlap(startedAt, endedAt)) return 'no lease while the control plane was slow';
    return isStarved() ? 'no lease while the machine had no CPU for it' : undefined;
  }
  return undefined;
}
