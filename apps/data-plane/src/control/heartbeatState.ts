import type { Heartbeat } from '@weighbridge/contracts';

/** An instant by both clocks of this host. */
export interface Moment {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

/** What heartbeats tell besides that the control plane is there. */
export class HeartbeatState {
  #offsetMs = 0;
  #liveProxies = 1;
  #heardAt: Moment | undefined;
  readonly #usualTokens = new Map<string, number>();

  beat(heartbeat: Heartbeat, now: Moment): void {
    this.heard(now);
    // One that tells no time says nothing of ours.
    if (heartbeat.clockMs > 0n) this.#offsetMs = Number(heartbeat.clockMs) - now.wallMs;
    this.#liveProxies = Math.max(1, heartbeat.liveProxies);
    for (const { model, p95Tokens } of heartbeat.modelOutputs) this.#usualTokens.set(model, p95Tokens);
  }

  /** The control plane answered what was sent then. */
  heard(at: Moment): void {
    if (!this.#heardAt || at.monotonicMs > this.#heardAt.monotonicMs) this.#heardAt = at;
  }

  /** Undefined before it was heard of. */
  get heardAtWallMs(): number | undefined {
    return this.#heardAt?.wallMs;
  }

  /** How many proxies share budgets and limits, this one among them. */
  get liveProxies(): number {
    return this.#liveProxies;
  }

  /** The control plane's clock, in Unix milliseconds, given this host's. */
  clockMs(wallMs: number): number {
    return wallMs + this.#offsetMs;
  }

  /** How far this host's clock is ahead of the control plane's, or behind where it is negative. */
  get aheadMs(): number {
    return -this.#offsetMs;
  }

  /** How long the control plane has been silent, by whichever clock says longer: one may have stood still, or been set. */
  silenceMs(now: Moment): number {
    if (!this.#heardAt) return Number.POSITIVE_INFINITY;
    return Math.max(now.monotonicMs - this.#heardAt.monotonicMs, now.wallMs - this.#heardAt.wallMs);
  }

  /** How many tokens a model's answers have stayed below of late, all but one in twenty. */
  usualTokens(model: string): number | undefined {
    return this.#usualTokens.get(model);
  }
}
