import { create, type MessageInitShape } from '@bufbuild/protobuf';
import type { ServerDuplexStream } from '@grpc/grpc-js';
import type { BucketRef } from '@weighbridge/budget';
import {
  type ConnectorCondition,
  ConnectorState,
  type Hello,
  type ProxyStatus,
  type TestConnectorSchema,
  type WatchRequest,
  type WatchResponse,
  WatchResponseSchema,
} from '@weighbridge/contracts';
import { isId } from '@weighbridge/domain';
import type { ModelOutput, Watermark } from '@weighbridge/ledger';
import type { EvidenceFeed } from '../evidence/evidenceFeed.ts';
import type { ChangeFeed } from './changeFeed.ts';
import { type ReportedOverhead, reportedOverhead } from './overheads.ts';
import type { ReportedConnector, SeenProxy } from './proxies.repository.ts';

/** The gRPC call on which a proxy watches this control plane. */
export type WatchCall = ServerDuplexStream<WatchRequest, WatchResponse>;

/** A request to test a connector. */
export type ConnectorTestMessage = MessageInitShape<typeof TestConnectorSchema>;

type Message = MessageInitShape<typeof WatchResponseSchema>['message'];

/** What every proxy gets in one round of heartbeats. */
export interface HeartbeatRound {
  readonly clock: Date;
  readonly liveProxies: number;
  readonly modelOutputs: readonly ModelOutput[];
}

/** What a status changed. */
export interface AppliedStatus {
  /** The proxy applied a newer revision than it had reported before. */
  readonly isNewRevision: boolean;
  /** Time from sending a change to the report that it was applied; undefined unless this status reports that. */
  readonly appliedAfterSeconds: number | undefined;
}

/**
 * One connected proxy: what it was sent, and what it reported. A proxy that does not read is sent nothing until its
 * stream drains, so no messages queue up for it here.
 */
export class WatchedProxy {
  /** The spool that it writes to; empty for a proxy of an earlier release, which does not report it. */
  readonly producerId: string;
  readonly signsUsage: boolean;
  readonly #call: WatchCall;
  #seen: SeenProxy;
  /** It was sent everything up to this revision; undefined: it needs a snapshot. */
  #sentRevision: bigint | undefined;
  /** The proxy's clock in its newest status. */
  #statusSentAtMs = 0n;
  #sentOutputs: readonly ModelOutput[] = [];
  /** The turn of the evidence feed up to which it was sent evidence. */
  #sentEvidenceTurn: number | undefined;
  /** Monotonic time at which the oldest change was sent that it has not applied; undefined: it has applied all. */
  #unappliedSinceMs: number | undefined;
  /** The newest watermark that is not recorded yet. */
  #watermark: Watermark | undefined;
  #overhead: ReportedOverhead | undefined;

  constructor(call: WatchCall, hello: Hello, connectedAt: Date) {
    this.#call = call;
    this.producerId = hello.producerId;
    this.signsUsage = hello.signsUsage;
    this.#seen = {
      id: hello.proxyId,
      name: hello.name,
      version: hello.version,
      appliedRevision: 0n,
      inFlightRequests: 0,
      waitingUsageBytes: 0n,
      usageLimitBytes: 0n,
      connectors: [],
      connectedAt,
      maxStalenessMs: hello.maxStalenessMs,
    };
  }

  get id(): string {
    return this.#seen.id;
  }

  /** What is recorded of it. A new object after each status. */
  get seen(): SeenProxy {
    return this.#seen;
  }

  get statusSentAtMs(): bigint {
    return this.#statusSentAtMs;
  }

  get watermark(): Watermark | undefined {
    return this.#watermark;
  }

  /** Undefined for a proxy of an earlier release, which does not report it. */
  get overhead(): ReportedOverhead | undefined {
    return this.#overhead;
  }

  /** Continues after the position that the proxy has applied, if the feed still has every change since. */
  resume({ resumeFrom }: Hello, feed: ChangeFeed): void {
    const { position } = feed;
    const isSameHistory =
      resumeFrom?.databaseSystemId === position?.databaseSystemId &&
      resumeFrom?.timeline === position?.timeline;
    if (isSameHistory && resumeFrom && feed.deltaAfter(resumeFrom.revision)) {
      this.#sentRevision = resumeFrom.revision;
    }
  }

  /** Sends the changes that it lacks: as a delta, else as a snapshot. */
  async catchUp(feed: ChangeFeed): Promise<void> {
    const { position } = feed;
    if (!position || this.#isBlocked || this.#sentRevision === position.revision) return;
    const delta = this.#sentRevision === undefined ? undefined : feed.deltaAfter(this.#sentRevision);
    if (delta) {
      this.#sentRevision = delta.toRevision;
      this.#unappliedSinceMs ??= performance.now();
      this.#send({ case: 'delta', value: delta });
      return;
    }
    const snapshot = await feed.snapshot();
    this.#sentRevision = snapshot.revision;
    this.#send({ case: 'snapshot', value: snapshot });
  }

  /** Sends a heartbeat that answers a status; its right to serve, as of that status, must be recorded already. */
  sendHeartbeat({ clock, liveProxies, modelOutputs }: HeartbeatRound, answersSentAtMs: bigint): void {
    // The heartbeat vouches for a revision, so it names no later one than the proxy was sent.
    const revision = this.#sentRevision;
    if (revision === undefined || this.#isBlocked) return;
    const newOutputs = this.#sentOutputs === modelOutputs ? [] : [...modelOutputs];
    this.#sentOutputs = modelOutputs;
    const clockMs = BigInt(clock.getTime());
    this.#send({
      case: 'heartbeat',
      value: { revision, clockMs, liveProxies, answersSentAtMs, modelOutputs: newOutputs },
    });
  }

  /** Sends the evidence that changed since it was last sent any. */
  sendEvidence(evidence: EvidenceFeed): void {
    if (this.#sentRevision === undefined || this.#isBlocked) return;
    if (this.#sentEvidenceTurn === evidence.turn) return;
    for (const value of evidence.changesAfter(this.#sentEvidenceTurn))
      this.#send({ case: 'evidence', value });
    this.#sentEvidenceTurn = evidence.turn;
  }

  /** Asks it to return the idle part of its lease on a bucket. A blocked proxy gets the next reclaim. */
  sendReclaim(bucket: BucketRef): void {
    if (this.#isBlocked) return;
    this.#send({ case: 'recall', value: { buckets: [bucket] } });
  }

  /** Asks it to test a connector. A blocked proxy does not answer in time. */
  sendTest(value: ConnectorTestMessage): void {
    if (!this.#isBlocked) this.#send({ case: 'testConnector', value });
  }

  applyStatus(status: ProxyStatus, receivedAt: Date): AppliedStatus {
    const isNewRevision = status.appliedRevision > this.#seen.appliedRevision;
    this.#statusSentAtMs = status.sentAtMs;
    this.#seen = {
      ...this.#seen,
      appliedRevision: status.appliedRevision,
      inFlightRequests: status.inFlightRequests,
      waitingUsageBytes: status.waitingUsageBytes,
      usageLimitBytes: status.usageLimitBytes,
      connectors: reportedConnectors(status.connectors),
    };
    this.#overhead = reportedOverhead(status.overhead);
    if (this.producerId !== '') this.#watermark = this.#watermarkOf(status, receivedAt);
    return { isNewRevision, appliedAfterSeconds: this.#appliedAfterSeconds(status) };
  }

  /** Forgets the watermark once it is recorded, unless a newer one arrived meanwhile. */
  watermarkRecorded(watermark: Watermark): void {
    if (this.#watermark === watermark) this.#watermark = undefined;
  }

  get #isBlocked(): boolean {
    return this.#call.writableNeedDrain;
  }

  #watermarkOf({ markAgeMs }: ProxyStatus, seenAt: Date): Watermark {
    const markAt = new Date(Math.max(0, seenAt.getTime() - Number(markAgeMs)));
    return { producerId: this.producerId, epoch: this.id, markAt, seenAt };
  }

  #appliedAfterSeconds({ appliedRevision }: ProxyStatus): number | undefined {
    const since = this.#unappliedSinceMs;
    if (since === undefined || appliedRevision < (this.#sentRevision ?? 0n)) return undefined;
    this.#unappliedSinceMs = undefined;
    return (performance.now() - since) / 1_000;
  }

  #send(message: Message): void {
    this.#call.write(create(WatchResponseSchema, message === undefined ? {} : { message }));
  }
}

/** Of one status; a proxy reports no more. */
const MAX_CONNECTORS = 100;
const STATES: ReadonlyMap<ConnectorState, ReportedConnector['state']> = new Map([
  [ConnectorState.HALF_OPEN, 'half_open'],
  [ConnectorState.OPEN, 'open'],
  [ConnectorState.DEAD, 'dead'],
]);

/** Skips states that only a later release knows. */
function reportedConnectors(conditions: readonly ConnectorCondition[]): ReportedConnector[] {
  return conditions.slice(0, MAX_CONNECTORS).flatMap(({ connectorId, state, downForMs }) => {
    const known = STATES.get(state);
    if (known === undefined || !isId('con', connectorId)) return [];
    return [{ connector_id: connectorId, state: known, down_for_ms: Number(downForMs) }];
  });
}
