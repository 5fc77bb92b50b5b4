import { hkdfSync } from 'node:crypto';

/**
 * The key of the envelopes in which callers keep what only a vendor understands. Every proxy derives the same, from the one secret
 * that all of them have. With another secret, what is in the envelopes out there is dropped, as another vendor's is.
 */
export function envelopeKey(controlPlaneToken: string): Buffer {
  return Buffer.from(hkdfSync('sha256', controlPlaneToken, '', 'weighbridge envelope', 32));
}
