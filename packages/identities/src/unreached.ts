import { NOT_PUBLIC } from '@weighbridge/runtime';
import { IdentityError } from './identityError.ts';

/** Why an identity provider sent no answer; undefined if something else failed. `provider` begins the sentence. */
export function unreachedError(
  error: unknown,
  provider: string,
  timeoutMs: number,
): IdentityError | undefined {
  const codes = codesOf(error);
  if (codes.includes(NOT_PUBLIC)) {
    return new IdentityError(
      `${provider} resolves to an address that is not public. To allow it, add its host to ALLOWED_UPSTREAM_HOSTS.`,
    );
  }
  if (codes.some((name) => name === 'TimeoutError' || name === 'AbortError')) {
    return new IdentityError(`${provider} did not answer within ${timeoutMs} ms.`);
  }
  const [named] = codes.filter((name) => /^(E[A-Z]+|UND_[A-Z_]+)$/.test(name));
  return named === undefined ? undefined : new IdentityError(`${provider} could not be reached (${named}).`);
}

interface Failure {
  readonly name?: string;
  readonly code?: string;
  readonly cause?: unknown;
}

/** The error and what caused it. */
export function chainOf(error: unknown): Failure[] {
  const chain: Failure[] = [];
  let at = error as Failure | null | undefined;
  // A DOMException of another realm is not an Error of this one.
  for (; typeof at === 'object' && at !== null && chain.length < 8; at = at.cause as Failure) chain.push(at);
  return chain;
}

function codesOf(error: unknown): string[] {
  return chainOf(error).flatMap(({ name, code }) => [code, name].filter((text) => typeof text === 'string'));
}

/** A text of a provider, fit for a log. */
export function shown(text: string): string {
  return `"${text.replace(/[^\x20-\x7e]/g, '').slice(0, 60)}"`;
}
