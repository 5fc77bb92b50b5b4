/** What the client needs to know of NATS_URL. */
export interface NatsAddress {
  readonly servers: string[];
  readonly user?: string;
  readonly pass?: string;
  readonly token?: string;
  /** Replies go where no other user may listen. */
  readonly inboxPrefix?: string;
}

/**
 * Reads one address or several with commas: `nats://user:password@host:4222`. The client takes no credential from an address,
 * so they are taken out of the first one that has any. A user name alone is a token.
 */
export function natsAddress(url: string): NatsAddress {
  const credentials: Pick<NatsAddress, 'user' | 'pass' | 'token' | 'inboxPrefix'>[] = [];
  const servers = url.split(',').map((one) => {
    const text = one.trim();
    const [, scheme = '', userInfo, rest = text] = /^([a-z]+:\/\/)?(?:(.*)@)?([^@]*)$/.exec(text) ?? [];
    if (userInfo) credentials.push(credentialsOf(userInfo));
    return scheme + rest;
  });
  return { servers, ...credentials[0] };
}

function credentialsOf(userInfo: string): Pick<NatsAddress, 'user' | 'pass' | 'token' | 'inboxPrefix'> {
  const colon = userInfo.indexOf(':');
  if (colon < 0) return { token: decode(userInfo) };
  const user = decode(userInfo.slice(0, colon));
  return { user, pass: decode(userInfo.slice(colon + 1)), inboxPrefix: inboxOf(user) };
}

/** The prefix of the subjects to which the server sends replies to a user. */
export function inboxOf(user: string): string {
  return `_INBOX.${user.replace(/[^A-Za-z0-9_-]/g, '_')}`;
}

/** Passwords need not be escaped where that is not ambiguous. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
