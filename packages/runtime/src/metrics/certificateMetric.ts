import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Metrics } from './metrics.ts';

/** TLS loads a renewed file within seconds; the metric need not read the file on each scrape. */
const REREAD_MS = 60_000;

/** A gauge with the earliest expiry of the certificates in a file. NaN without TLS, or if the file can't be read. */
export function addCertificateMetric(
  metrics: Metrics,
  file: string | undefined,
  nowMs: () => number = () => performance.now(),
): void {
  let readAtMs = Number.NEGATIVE_INFINITY;
  let endsAtSeconds = Number.NaN;
  metrics.gauge(
    'weighbridge_certificate_expires_timestamp_seconds',
    "When this app's certificate for the other apps expires.",
    () => {
      if (file !== undefined && nowMs() - readAtMs >= REREAD_MS) {
        readAtMs = nowMs();
        endsAtSeconds = firstEnd(file);
      }
      return endsAtSeconds;
    },
  );
}

function firstEnd(file: string): number {
  try {
    const blocks = readFileSync(file, 'utf8').match(
      /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g,
    );
    const ends = (blocks ?? []).map(
      (block) => new Date(new X509Certificate(block).validTo).getTime() / 1_000,
    );
    return ends.length > 0 ? Math.min(...ends) : Number.NaN;
  } catch {
    return Number.NaN;
  }
}
