import { AppError } from '@weighbridge/errors';
import { decodeBody, encodingOf } from '../formats/contentEncoding.ts';
import type { HeldMemory } from '../shared/memoryBudget.ts';
import type { UpstreamResponse } from '../upstream/httpExchange.ts';
import { type RefusedFor, refusedFor } from '../upstream/vendorRefusal.ts';
import type { Attempt } from './attempt.ts';
import { SupersededResponse } from './supersededResponse.ts';

/** A response that refuses the connector's credential, or may. */
export interface CredentialRefusal {
  readonly about: RefusedFor;
  /** Of a refused request: the response as if it had just arrived, if it had to be read. */
  readonly response: UpstreamResponse | undefined;
}

const MAX_DECODED_BYTES = 256 * 1024;
/** An error that says that the key is not valid comes whole and at once. */
const PEEK_MS = 250;
const CREDENTIAL_STATUSES = new Set([400, 401, 403]);

/** Whether the response may refuse the credential, which is the service's own: the client's never goes out. */
export function mayRefuseCredential(attempt: Attempt): boolean {
  return attempt.state === 'answered' && CREDENTIAL_STATUSES.has(attempt.response.status);
}

/** Reads a 400, 401 or 403. `memory` holds what is read of it until the request ends. */
export async function readCredentialRefusal(
  attempt: Attempt,
  memory: HeldMemory,
): Promise<CredentialRefusal> {
  const { status, headers, body } = attempt.response;
  const encoding = headers['content-encoding'];
  if (status === 400) {
    // Left as it is: it may be large, and is nearly always about the request.
    const about = refusedFor(status, await textOf(encoding, await body.peek(PEEK_MS)));
    if (about !== 'request') new SupersededResponse(attempt, memory);
    return { about, response: undefined };
  }
  const held = new SupersededResponse(attempt, memory);
  const about = refusedFor(status, await textOf(encoding, await held.bytes()));
  return { about, response: about === 'request' ? await held.take() : undefined };
}

async function textOf(contentEncoding: unknown, bytes: Buffer | undefined): Promise<string | undefined> {
  if (bytes === undefined) return undefined;
  const encoding = encodingOf(contentEncoding);
  const isPlain = encoding === undefined || encoding === 'unknown';
  const plain = isPlain ? bytes : await decodeBody(encoding, bytes, MAX_DECODED_BYTES);
  return plain?.toString('utf8');
}

/** What the client gets if the vendor refuses the connector's credential, or may. */
export function connectorUnauthorized(provider: string, about: RefusedFor): AppError {
  const what =
    about === 'credential'
      ? `The vendor ${provider} refused the credential with which this service called it. Your own key is fine. The operator of the service was told, and has to renew the credential; until then, use a model of another provider.`
      : `The vendor ${provider} refused this request to the account of this service: the account may lack a right to the model or to what the request names, or the vendor forbids the request. Your own key is fine. Try another model, or ask the operator of the service, whose log names the connector.`;
  return new AppError('upstream', 'connector_unauthorized', what, { headers: { 'x-should-retry': 'false' } });
}
