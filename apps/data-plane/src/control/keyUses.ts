/** The last use of a key, as a status reports it. */
export interface KeyUse {
  readonly keyId: string;
  readonly ageMs: bigint;
}

interface SentReport {
  readonly sentAtMs: number;
  readonly uses: readonly (readonly [keyId: string, atMs: number])[];
}

const REPORT_MS = 10_000;
/** Of one status. */
const MAX_REPORTED = 5_000;
/** More keys than a proxy sees between two reports. Beyond it, uses are not recorded. */
const MAX_KEYS = 200_000;

/**
 * When requests last used each key, until the control plane knows it. A request only sets an entry of a map; the statuses of
 * the control stream report them every ten seconds. A report is confirmed by a heartbeat; one that a lost stream may have lost
 * is sent again.
 */
export class KeyUses {
  readonly #uses = new Map<string, number>();
  #sent: SentReport[] = [];
  #dueAtMs = Number.NEGATIVE_INFINITY;

  /** `atMs` is in Unix milliseconds. */
  note(keyId: string, atMs: number): void {
    if (this.#uses.size < MAX_KEYS || this.#uses.has(keyId)) this.#uses.set(keyId, atMs);
  }

  /** What a status reports that is sent at `sentAtMs`, a monotonic time. The `last` one reports what is not due yet. */
  report(sentAtMs: number, nowMs: number, { isLast = false } = {}): KeyUse[] {
    if (this.#uses.size === 0 || (sentAtMs < this.#dueAtMs && !isLast)) return [];
    const uses: [string, number][] = [];
    for (const use of this.#uses) {
      if (uses.length === MAX_REPORTED) break;
      uses.push(use);
    }
    for (const [keyId] of uses) this.#uses.delete(keyId);
    // More that are due follow with the next status.
    if (this.#uses.size === 0) this.#dueAtMs = sentAtMs + REPORT_MS;
    this.#sent.push({ sentAtMs, uses });
    return uses.map(([keyId, atMs]) => ({ keyId, ageMs: BigInt(Math.max(0, Math.round(nowMs - atMs))) }));
  }

  /** The control plane has what was sent until then. */
  confirm(sentAtMs: number): void {
    if (this.#sent.length > 0) this.#sent = this.#sent.filter((report) => report.sentAtMs > sentAtMs);
  }

  /** The stream ended: what is not confirmed may be lost. */
  resend(): void {
    const lost = this.#sent.flatMap(({ uses }) => uses);
    this.#sent = [];
    for (const [keyId, atMs] of lost) if (!this.#uses.has(keyId)) this.note(keyId, atMs);
  }
}
