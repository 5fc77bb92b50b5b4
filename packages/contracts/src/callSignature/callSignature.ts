import { createHash, sign } from 'node:crypto';
import type { Metadata } from '@grpc/grpc-js';
import { type ProducerKey, producerIdOf, verifiesWith } from '../producerKey.ts';

// A call that names a producer carries that producer's signature over the method and the request's bytes (docs/adr/0069). A call
// that is sent again changes nothing: figures are cumulative, and the rest is done once.

/** The public key, then the signature. */
const PROOF = 'weighbridge-proof-bin';
const PUBLIC_KEY_BYTES = 32;
const PROOF_BYTES = PUBLIC_KEY_BYTES + 64;
/** A signature of a batch proves nothing of a call. */
const CONTEXT = 'weighbridge.control-call.v1\0';

/** Adds the signature of a call to its metadata. */
export function signCall(
  metadata: Metadata,
  path: string,
  request: Uint8Array,
  { publicKey, privateKey }: Pick<ProducerKey, 'publicKey' | 'privateKey'>,
): void {
  metadata.set(PROOF, Buffer.concat([publicKey, sign(null, digestOf(path, request), privateKey)]));
}

/** The producer that signed a call; undefined if none did, or the call is not what was signed. */
export function signerOf(metadata: Metadata, path: string, request: Uint8Array): string | undefined {
  const [proof] = metadata.get(PROOF);
  if (!Buffer.isBuffer(proof) || proof.length !== PROOF_BYTES) return undefined;
  const publicKey = proof.subarray(0, PUBLIC_KEY_BYTES);
  const isSigned = verifiesWith(publicKey, digestOf(path, request), proof.subarray(PUBLIC_KEY_BYTES));
  return isSigned ? producerIdOf(publicKey) : undefined;
}

function digestOf(path: string, request: Uint8Array): Buffer {
  return createHash('sha256').update(CONTEXT).update(`${path}\0`).update(request).digest();
}
