import type { Database } from '@weighbridge/database';
import { notify } from '../../shared/notify.ts';
import { percentilesOf, type ReportedOverhead } from './overheads.ts';

/** What proxies report of their overhead, from the control plane that each is connected to, to all. */
export const OVERHEADS_CHANNEL = 'weighbridge_proxy_overheads';

/** A report that is older is of a proxy that is gone. */
const STALE_MS = 60_000;
/** PostgreSQL takes 8,000 bytes; a report of the longest numbers has under 1,000. */
const REPORTS_PER_MESSAGE = 7;
const MAX_PROXIES = 10_000;

export interface ProxyOverhead extends ReportedOverhead {
  readonly proxyId: string;
}

/** The overhead over all proxies. */
export interface Overhead {
  readonly requests: number;
  readonly proxies: number;
  readonly windowMs: number;
  readonly p50Us: number;
  readonly p95Us: number;
}

/**
 * The overhead of the last minutes, as the proxies report it. It is for a glance, so it is kept nowhere: each control plane tells
 * the others what its proxies report, by the database's notifications.
 */
export class ProxyOverheads {
  readonly #nowMs: () => number;
  readonly #reports = new Map<string, ReportedOverhead & { readonly heardAtMs: number }>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Tells all control planes, this one too. */
  async tell(db: Database, reports: readonly ProxyOverhead[]): Promise<void> {
    for (let at = 0; at < reports.length; at += REPORTS_PER_MESSAGE) {
      await notify(db, OVERHEADS_CHANNEL, reports.slice(at, at + REPORTS_PER_MESSAGE));
    }
  }

  /** A notification. */
  heard(text: string): void {
    this.#forgetStale();
    for (const { proxyId, ...report } of JSON.parse(text) as ProxyOverhead[]) {
      if (this.#reports.size >= MAX_PROXIES && !this.#reports.has(proxyId)) return;
      this.#reports.set(proxyId, { ...report, heardAtMs: this.#nowMs() });
    }
  }

  /** Null without a request in the last minutes. */
  read(): Overhead | null {
    this.#forgetStale();
    const reports = [...this.#reports.values()];
    const percentiles = percentilesOf(reports);
    if (!percentiles) return null;
    const windowMs = Math.max(...reports.map((report) => report.windowMs));
    return { ...percentiles, proxies: reports.length, windowMs };
  }

  #forgetStale(): void {
    const oldest = this.#nowMs() - STALE_MS;
    for (const [id, { heardAtMs }] of this.#reports) if (heardAtMs < oldest) this.#reports.delete(id);
  }
}
