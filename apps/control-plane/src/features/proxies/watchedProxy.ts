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
import type { Position } from '../changes/changes.service.ts';
import type { EvidenceFeed } from '../evidence/evidenceFeed.ts';
import type { ChangeFeed, Update } from './changeFeed.ts';
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
 * stream drains, so only a few messages queue up for it here.
 */
export class WatchedProxy {
  /** The spool that it writes to; empty for a proxy of an earlier release, which does not report it. */
  readonly producerId: string;
  readonly signsUsage: boolean;
  readonly #call: WatchCall;
  #seen: SeenProxy;
  /** It has everything up to this position, or was sent it; undefined: it needs a snapshot. */
  #sent: Position | undefined;
  /** What is being sent, and how many of its messages were. */
  #sending: { readonly update: Update; readonly next: number } | undefined;
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
    this.#sent = hello.resumeFrom;
    this.#seen = {
      id: hello.proxyId,
      name: hello.name,
      version: hello.version,
      takesRows: hello.takesRows,
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

  /**
   * Sends the changes that it lacks: as a delta, else as a snapshot. Rows are sent in parts, as the proxy reads them; what changes
   * meanwhile follows. Throws an AppError if it can't be sent the tables.
   */
  catchUp(feed: ChangeFeed): void {
    const { position } = feed;
    while (position && !this.#isBlocked) {
      this.#sending ??= this.#nextUpdate(feed, position);
      if (!this.#sending) return;
      const { update, next } = this.#sending;
      this.#send(update.messages[next]);
      this.#sending = { update, next: next + 1 };
      if (next + 1 < update.messages.length) continue;
      this.#sending = undefined;
      this.#sent = update.position;
    }
  }

  #nextUpdate(
    feed: ChangeFeed,
    position: Position,
  ): { readonly update: Update; readonly next: number } | undefined {
    const sent = this.#sent && isSameHistory(this.#sent, position) ? this.#sent.revision : undefined;
    if (sent === position.revision) return undefined;
    const how = { takesRows: this.#seen.takesRows };
    const changes = sent === undefined ? undefined : feed.updateAfter(sent, how);
    if (changes) this.#unappliedSinceMs ??= performance.now();
    return { update: changes ?? feed.snapshot(how), next: 0 };
  }

  /** Sends a heartbeat that answers a status; its right to serve, as of that status, must be recorded already. */
  sendHeartbeat({ clock, liveProxies, modelOutputs }: HeartbeatRound, answersSentAtMs: bigint): void {
    // The heartbeat vouches for a revision, so it names no later one than the proxy was sent.
    const revision = this.#sent?.revision;
    if (revision === undefined || this.#sending || this.#isBlocked) return;
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
    if (this.#sent === undefined || this.#isBlocked) return;
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
    if (since === undefined || appliedRevision < (this.#sent?.revision ?? 0n)) return undefined;
    this.#unappliedSinceMs = undefined;
    return (performance.now() - since) / 1_000;
  }

  #send(message: Message): void {
    this.#call.write(create(WatchResponseSchema, message === undefined ? {} : { message }));
  }
}

/** Positions of two histories do not compare: the same revision stands for different states. */
function isSameHistory(a: Position, b: Position): boolean {
  return a.databaseSystemId === b.databaseSystemId && a.timeline === b.timeline;
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
