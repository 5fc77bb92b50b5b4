/** Per connection, not per message (RFC 9110, section 7.6.1). */
export const HOP_BY_HOP: readonly string[] = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];

/** Headers of a request that no vendor gets from a client, whatever an operator lists. */
const NEVER = new Set([
  ...HOP_BY_HOP,
  // Credentials.
  'authorization',
  'api-key',
  'cookie',
  'x-api-key',
  'x-goog-api-key',
  // Written by the service.
  'accept-encoding',
  'expect',
  'host',
  // About the path here, or the account there.
  'forwarded',
  'x-real-ip',
  'openai-organization',
  'openai-project',
  'anthropic-organization-id',
  'anthropic-workspace-id',
  'x-goog-user-project',
]);
/** Bodies, the service's own headers, the path here, and what proxies of companies say of their users. */
const NEVER_PREFIXES = [
  'content-',
  'x-svc-',
  'x-forwarded-',
  'cf-access-',
  'x-goog-iap-',
  'x-goog-authenticated-user-',
  'x-amzn-oidc-',
  'x-auth-request-',
  'x-ms-client-principal',
  'x-ms-token-',
];
/** Words of names of headers that carry a credential. */
const SECRET_WORD =
  /(^|[-_])(authorization|auth|token|accesstoken|secret|password|jwt|cookie2?|credentials?|assertion|api-?key|apikey|signature)($|[-_])/;

const NAME = /^[a-z0-9!#$%&'+.^_`|~-]{1,100}$/;
/** Whole words. */
const PREFIX = /^[a-z0-9_]+(-[a-z0-9_]+)*-$/;

/** Whether a header, by its name in lower case, stays here whatever a connector's `forward_headers` say. */
export function isNeverForwarded(name: string): boolean {
  return (
    NEVER.has(name) || NEVER_PREFIXES.some((prefix) => name.startsWith(prefix)) || SECRET_WORD.test(name)
  );
}

/** Why a connector can't forward the headers of this name, or pattern such as `x-acme-*`, in lower case; undefined if it can. */
export function forwardHeaderFault(pattern: string): string | undefined {
  if (!pattern.endsWith('*')) {
    if (!NAME.test(pattern)) return 'it is not the name of a header';
    return isNeverForwarded(pattern)
      ? 'credentials, identities and headers of the connection are never forwarded'
      : undefined;
  }
  const prefix = pattern.slice(0, -1);
  if (prefix === 'x-' || prefix.length > 100 || !PREFIX.test(prefix)) {
    return 'a pattern is whole words other than "x", then "-*", such as "x-acme-*"';
  }
  const isNever =
    SECRET_WORD.test(prefix) ||
    [...NEVER, ...NEVER_PREFIXES].some((never) => never.startsWith(prefix)) ||
    NEVER_PREFIXES.some((never) => prefix.startsWith(never));
  return isNever ? 'it covers headers that are never forwarded: list the names instead' : undefined;
}

/** Names that are looked up at first sight are remembered, up to this many: a client may send any. */
const MAX_REMEMBERED = 512;

/** Names and prefixes of headers, prepared for looking up. Names are in lower case. */
export class HeaderNames {
  readonly #known = new Map<string, boolean>();
  readonly #prefixes: readonly string[];

  /** Patterns are names, or prefixes followed by `*`. */
  constructor(patterns: readonly string[]) {
    for (const pattern of patterns)
      if (!pattern.endsWith('*')) this.#known.set(pattern, !isNeverForwarded(pattern));
    this.#prefixes = patterns
      .filter((pattern) => pattern.endsWith('*'))
      .map((pattern) => pattern.slice(0, -1));
  }

  has(name: string): boolean {
    const known = this.#known.get(name);
    return known === undefined ? this.#lookUp(name) : known;
  }

  #lookUp(name: string): boolean {
    const has = this.#prefixes.some((prefix) => name.startsWith(prefix)) && !isNeverForwarded(name);
    if (this.#known.size < MAX_REMEMBERED) this.#known.set(name, has);
    return has;
  }
}
