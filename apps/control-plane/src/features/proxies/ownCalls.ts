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

export interface UnsignedCalls {
  /** ACCEPT_UNSIGNED_CALLS: whoever is named, no signature is needed. */
  readonly accepted: boolean;
  /** Whether calls of these producers without a key count, as the ledger knows them. */
  readonly count: (producerIds: readonly string[]) => Promise<boolean>;
}

/**
 * Rejects unless a call is signed by each producer that it names (docs/adr/0069). A producer of release 0.1.0 has no key, signs
 * nothing, and names itself only in some calls: such calls count if it is known, or while one is live.
 */
export async function assertOwnCall(
  { method, metadata, request }: IncomingCall,
  unsigned: UnsignedCalls,
): Promise<void> {
  const ids = namedProducers(method.input, request);
  if (ids.length === 0) return;
  const named = ids.filter((producerId) => producerId !== '');
  if (!named.every((producerId) => UUID.test(producerId))) throw invalidId();
  if (unsigned.accepted) return;
  // The signature of who isn't named proves nothing.
  const signer = named.length > 0 ? signerOf(metadata, pathOf(method), encodedRequest(request)) : undefined;
  const others = named.filter((producerId) => producerId !== signer);
  if (named.length > 0 && others.length === 0) return;
  if (others.some(isSigningProducer) || !(await unsigned.count(others))) throw notSigned(method.name);
}

function invalidId(): AppError {
  return new AppError('invalid_request', 'invalid_request', 'producer_id must be a UUID in lower case.');
}

function notSigned(method: string): AppError {
  const message = `${method} is not signed by a producer that it names. If proxies were rolled back to release 0.1.0, set ACCEPT_UNSIGNED_CALLS=true at the control plane until they are upgraded again.`;
  return new AppError('permission', 'unsigned_call', message);
}
