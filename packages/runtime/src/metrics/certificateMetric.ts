import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Metrics } from './metrics.ts';

/** A renewed file is taken up by TLS within seconds; here it need not be read each time that somebody looks. */
const REREAD_MS = 60_000;

/** Shows when the first of the certificates in a file ends; not a number without TLS, or where the file can't be read. */
export function addCertificateMetric(
  metrics: Metrics,
  file: string | undefined,
  nowMs: () => number = () => performance.now(),
): void {
  let readAtMs = Number.NEGATIVE_INFINITY;
  let endsAtSeconds = Number.NaN;
  metrics.gauge(
    'weighbridge_certificate_expires_timestamp_seconds',
    'When the certificate that this app shows the others ends.',
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
