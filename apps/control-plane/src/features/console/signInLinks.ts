import { createHash, randomBytes } from 'node:crypto';

/** How long a link may be used. */
const LIFETIME_MS = 15 * 60_000;
const MAX_LINKS = 10;

interface Link {
  readonly token: string;
  readonly expiresAtMs: number;
}

/**
 * Links that sign in without a key, each once. They are kept in memory: only the process that made one takes it, and a link of an
 * earlier run leads nowhere.
 */
export class SignInLinks {
  readonly #nowMs: () => number;
  readonly #links = new Map<string, Link>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** The path of a new link, which signs in the holder of a key. */
  create(token: string): string {
    const code = randomBytes(32).toString('base64url');
    const [oldest] = this.#links.keys();
    if (oldest !== undefined && this.#links.size >= MAX_LINKS) this.#links.delete(oldest);
    this.#links.set(digest(code), { token, expiresAtMs: this.#nowMs() + LIFETIME_MS });
    return `/console/sign-in?code=${code}`;
  }

  /** The key of a link, which can't be used again; undefined if there is no such link any more. */
  take(code: string): string | undefined {
    const id = digest(code);
    const link = this.#links.get(id);
    this.#links.delete(id);
    return link && this.#nowMs() < link.expiresAtMs ? link.token : undefined;
  }
}

/** Links are found by it, so that no comparison of a guess takes longer the closer it is. */
function digest(code: string): string {
  return createHash('sha256').update(code).digest('hex');
}
