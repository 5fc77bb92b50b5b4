import {
  encodedRequest,
  type IncomingCall,
  isSigningProducer,
  namedProducers,
  pathOf,
  signerOf,
} from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';

/** In one form only: Postgres reads several, and an id in another form must not pass for that of a producer without a key. */
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Throws unless a call is signed by each producer that it names (docs/adr/0069). A producer of release 0.1.0 has no key and signs
 * nothing; with `acceptsUnsigned`, neither need others.
 */
export function assertOwnCall({ method, metadata, request }: IncomingCall, acceptsUnsigned: boolean): void {
  const named = namedProducers(method.input, request);
  if (named.length === 0) return;
  if (!named.every((producerId) => UUID.test(producerId))) throw invalidId();
  const signer = signerOf(metadata, pathOf(method), encodedRequest(request));
  const isOwn = (producerId: string) =>
    producerId === signer || acceptsUnsigned || !isSigningProducer(producerId);
  if (!named.every(isOwn)) throw notSigned(method.name);
}

function invalidId(): AppError {
  return new AppError('invalid_request', 'invalid_request', 'producer_id must be a UUID in lower case.');
}

function notSigned(method: string): AppError {
  const message = `${method} is not signed by the producer that it names. If proxies were rolled back to release 0.1.0, set ACCEPT_UNSIGNED_CALLS=true at the control plane until they are upgraded again.`;
  return new AppError('permission', 'unsigned_call', message);
}
