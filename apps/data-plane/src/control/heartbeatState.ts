import type { Heartbeat } from '@weighbridge/contracts';

/** An instant by both clocks of this host. */
export interface Moment {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

/** What the control plane's heartbeats carry, and when it last answered. */
export class HeartbeatState {
  #clockOffsetMs = 0;
  #liveProxies = 1;
  #lastContact: Moment | undefined;
  readonly #p95OutputTokens = new Map<string, number>();

  receive(heartbeat: Heartbeat, now: Moment): void {
    this.noteContact(now);
    // 0: the heartbeat carries no time.
    if (heartbeat.clockMs > 0n) this.#clockOffsetMs = Number(heartbeat.clockMs) - now.wallMs;
    this.#liveProxies = Math.max(1, heartbeat.liveProxies);
    for (const { model, p95Tokens } of heartbeat.modelOutputs) this.#p95OutputTokens.set(model, p95Tokens);
  }

  /** The control plane answered a call that was sent at this moment. */
  noteContact(at: Moment): void {
    if (!this.#lastContact || at.monotonicMs > this.#lastContact.monotonicMs) this.#lastContact = at;
  }

  /** Unix milliseconds; undefined before the first contact. */
  get lastContactWallMs(): number | undefined {
    return this.#lastContact?.wallMs;
  }

  /** The number of proxies that share budgets and limits, this one included. */
  get liveProxies(): number {
    return this.#liveProxies;
  }

  /** Converts this host's time to the control plane's, in Unix milliseconds. */
  clockMs(wallMs: number): number {
    return wallMs + this.#clockOffsetMs;
  }

  /** How far this host's clock is ahead of the control plane's; negative if it is behind. */
  get clockAheadMs(): number {
    return -this.#clockOffsetMs;
  }

  /** Time since the last contact, by the larger of both clocks: one may have been suspended or set. */
  silenceMs(now: Moment): number {
    if (!this.#lastContact) return Number.POSITIVE_INFINITY;
    return Math.max(now.monotonicMs - this.#lastContact.monotonicMs, now.wallMs - this.#lastContact.wallMs);
  }

  /** The 95th percentile of output tokens in a model's recent responses. */
  p95OutputTokens(model: string): number | undefined {
    return this.#p95OutputTokens.get(model);
  }
}
