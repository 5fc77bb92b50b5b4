import type { Database } from '@weighbridge/database';
import type { Logger } from '@weighbridge/runtime';
import { recordLastUses } from './keys.repository.ts';

export interface KeyUsesDeps {
  readonly db: Database;
  readonly logger: Pick<Logger, 'warn'>;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
}

const WRITE_MS = 2_000;
/** A key that is used all the time is written this often. With a proxy's ten seconds, a use shows within a minute. */
const KEY_MS = 20_000;
/** Beyond it, uses of further keys are not recorded until the next write. */
const MAX_KEYS = 200_000;
const MAX_KEYS_PER_WRITE = 5_000;

/**
 * When keys were last used, by callers of the operator API and as proxies report. A use only sets an entry of a map. The last
 * use of a key is always written, at most every 20 seconds, many keys at once.
 */
export class KeyUses {
  readonly #deps: KeyUsesDeps;
  readonly #uses = new Map<string, number>();
  readonly #writtenAtMs = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;

  constructor(deps: KeyUsesDeps) {
    this.#deps = deps;
  }

  start(): void {
    this.#timer = setInterval(() => void this.write(), WRITE_MS);
    this.#timer.unref();
  }

  /** Writes what is left. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#writing;
    await this.write({ all: true });
  }

  /** `atMs` is in Unix milliseconds; by default now. */
  note(keyId: string, atMs?: number): void {
    const nowMs = this.#deps.nowMs();
    const before = this.#uses.get(keyId);
    if (before === undefined && this.#uses.size >= MAX_KEYS) return;
    this.#uses.set(keyId, Math.max(before ?? 0, Math.min(atMs ?? nowMs, nowMs)));
  }

  /** Writes the uses that are due; never rejects. Those that fail are written with the next. */
  write(options: { readonly all?: boolean } = {}): Promise<void> {
    this.#writing ??= this.#write(options).finally(() => {
      this.#writing = undefined;
    });
    return this.#writing;
  }

  async #write({ all = false }: { readonly all?: boolean }): Promise<void> {
    const nowMs = this.#deps.nowMs();
    for (const [id, atMs] of this.#writtenAtMs) if (nowMs - atMs >= KEY_MS) this.#writtenAtMs.delete(id);
    const due = [...this.#uses].filter(([id]) => all || !this.#writtenAtMs.has(id));
    try {
      for (let at = 0; at < due.length; at += MAX_KEYS_PER_WRITE) {
        const part = due.slice(at, at + MAX_KEYS_PER_WRITE);
        await recordLastUses(this.#deps.db, part);
        for (const [id, atMs] of part) {
          this.#writtenAtMs.set(id, nowMs);
          // It may have been used again meanwhile.
          if (this.#uses.get(id) === atMs) this.#uses.delete(id);
        }
      }
    } catch (error) {
      this.#deps.logger.warn({ why: error }, 'failed to record when keys were last used; trying again');
    }
  }
}
