import { isSigningProducer } from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import { type DecodedBatch, findKnownEpochs } from '@weighbridge/ledger';
import type { Logger } from '@weighbridge/runtime';
import type { MeteringMetrics } from './meteringMetrics.ts';

const LOG_EVERY_MS = 60_000;
/** Of older releases' producers; emptied when full. */
const MAX_KNOWN_EPOCHS = 10_000;

export interface SenderCheckDeps {
  readonly db: Database;
  readonly metrics: Pick<MeteringMetrics, 'forged'>;
  readonly logger: Logger;
  /** Monotonic. */
  readonly nowMs?: () => number;
}

/**
 * Drops the messages that were not sent by the producer that they name (docs/adr/0029). They are not quarantined: what a producer
 * really sent stays in its spool until it is acked, and whoever forges must not fill the database.
 */
export class SenderCheck {
  readonly #deps: SenderCheckDeps;
  /** `<producer>/<epoch>` of those that sign nothing, since an older release wrote them. */
  readonly #known = new Set<string>();
  /** The same of those with a key, for the batch that is being checked. */
  readonly #unsignedNow = new Set<string>();
  #loggedAtMs = Number.NEGATIVE_INFINITY;
  #sinceLogged = 0;

  constructor(deps: SenderCheckDeps) {
    this.#deps = deps;
  }

  /** The messages that count. Rejects if the database fails. */
  async pass(messages: readonly DecodedBatch[]): Promise<readonly DecodedBatch[]> {
    // Usually all are signed.
    if (messages.every(isSigned)) return messages;
    await this.#findKnown(messages);
    return messages.filter((message) => isSigned(message) || this.#isKnown(message) || this.#drop(message));
  }

  /** An older release's proxy is known to the control plane before it serves: no one else can make up such an epoch. */
  async #findKnown(messages: readonly DecodedBatch[]): Promise<void> {
    const unknown = messages.flatMap((message) =>
      message.proof === 'unsigned' && message.source && !this.#isKnown(message) ? [message.source] : [],
    );
    this.#unsignedNow.clear();
    if (unknown.length === 0) return;
    const found = await findKnownEpochs(this.#deps.db, unknown);
    if (this.#known.size + found.length > MAX_KNOWN_EPOCHS) this.#known.clear();
    for (const epoch of found) {
      // A producer with a key signs again once its proxy is upgraded: then nothing unsigned counts any more.
      (isSigningProducer(epoch.producerId) ? this.#unsignedNow : this.#known).add(keyOf(epoch));
    }
  }

  #isKnown({ proof, source }: DecodedBatch): boolean {
    if (proof !== 'unsigned' || source === undefined) return false;
    const key = keyOf(source);
    return this.#known.has(key) || this.#unsignedNow.has(key);
  }

  /** Always false. Logs once a minute: whoever forges must not fill the log either. */
  #drop({ proof, source }: DecodedBatch): false {
    const { metrics, logger, nowMs = () => performance.now() } = this.#deps;
    metrics.forged.inc(1);
    this.#sinceLogged++;
    if (nowMs() - this.#loggedAtMs < LOG_EVERY_MS) return false;
    this.#loggedAtMs = nowMs();
    logger.error({ ...source, proof, messages: this.#sinceLogged }, FORGED);
    this.#sinceLogged = 0;
    return false;
  }
}

const FORGED =
  'dropped usage that is not signed by the producer that it names; if that proxy is running, see WeighbridgeUsageForged in docs/runbook.md';

/** One that could not be decoded goes to quarantine. */
function isSigned({ proof }: DecodedBatch): boolean {
  return proof === 'signed' || proof === undefined;
}

function keyOf({ producerId, epoch }: { readonly producerId: string; readonly epoch: string }): string {
  return `${producerId}/${epoch}`;
}
