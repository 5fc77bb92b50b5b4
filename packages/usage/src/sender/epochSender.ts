import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import type { Subscription, UsageStream } from '@weighbridge/bus';
import { type UsageConfirm, UsageConfirmQuerySchema, UsageConfirmsSchema } from '@weighbridge/contracts';
import type { Logger } from '@weighbridge/runtime';
import type { SettledEvent, SpoolEpoch } from '../spool/types.ts';
import { ShardSender, type ShardSenderDeps } from './shardSender.ts';

export interface EpochSenderDeps extends ShardSenderDeps {
  readonly stream: UsageStream;
}

/** Sends one epoch's events until the ledger has acked all of them. */
export interface EpochSender {
  /** An event that was just settled. */
  add(event: SettledEvent): void;
  /** Sends waiting events now, and later ones as they come. */
  flush(): void;
  stop(): Promise<void>;
}

/** With `askFirst`, sending starts when the ledger has said what it has of the epoch, or after `timing.askMs`. */
export function startEpochSender(
  deps: EpochSenderDeps,
  epoch: SpoolEpoch,
  { askFirst }: { readonly askFirst: boolean },
): EpochSender {
  const { stream, timing, nowMs, logger } = deps;
  const shards = Array.from({ length: epoch.shards }, (_, shard) => new ShardSender(deps, epoch, shard));
  let isChecking = false;
  let running: Promise<unknown> | undefined;

  const acks = listenForAcks(deps, epoch, (received) => {
    for (const { shard, n } of received) shards[shard]?.ack(n);
    start();
  });

  function start(): void {
    clearTimeout(startTimer);
    running ??= Promise.all(shards.map((shard) => shard.run()));
  }

  /** Asks the ledger for its acks, and compares the stream's position with what was sent. */
  async function checkForLosses(): Promise<void> {
    if (isChecking || shards.every((shard) => shard.isAcked)) return;
    isChecking = true;
    try {
      requestAcks(stream, epoch);
      const checks = shards.map((shard) => shard.beginLossCheck());
      const position = await stream.position(epoch.shards);
      for (const check of checks) check(position);
    } catch (error) {
      logger.debug({ err: error }, 'failed to read the position of the usage stream');
    } finally {
      isChecking = false;
    }
  }

  const checkTimer = setInterval(() => {
    const now = nowMs();
    if (shards.some((shard) => shard.stalledMs(now) >= timing.checkMs)) void checkForLosses();
  }, timing.checkMs);
  const reconnects = stream.onReconnect(() => void checkForLosses());
  const startTimer = askFirst ? setTimeout(start, timing.askMs) : undefined;
  if (askFirst) requestAcks(stream, epoch);
  else start();

  return {
    add: (event) => shards[event.shard]?.add(event),
    flush() {
      for (const shard of shards) shard.flush();
    },
    async stop() {
      clearInterval(checkTimer);
      clearTimeout(startTimer);
      for (const shard of shards) shard.stop();
      await Promise.all([running, acks.stop(), reconnects.stop()]);
    },
  };
}

/** The number of an epoch's events that the ledger has not acked. */
export function unackedIn(epoch: SpoolEpoch): number {
  return sumOverShards(epoch, (shard) => epoch.lastN(shard) - epoch.ackedN(shard));
}

export function eventsIn(epoch: SpoolEpoch): number {
  return sumOverShards(epoch, (shard) => epoch.lastN(shard));
}

function sumOverShards({ shards }: SpoolEpoch, count: (shard: number) => bigint): number {
  return Array.from({ length: shards }, (_, shard) => Number(count(shard))).reduce((a, b) => a + b, 0);
}

/** Passes the ledger's acks of one epoch to `handle`, until stopped. */
function listenForAcks(
  { stream, logger }: { readonly stream: Pick<UsageStream, 'onAck'>; readonly logger: Logger },
  { producerId, epoch }: SpoolEpoch,
  handle: (acks: readonly UsageConfirm[]) => void,
): Subscription {
  return stream.onAck(producerId, (payload) => {
    try {
      const { confirms } = fromBinary(UsageConfirmsSchema, payload);
      handle(confirms.filter((ack) => ack.producerId === producerId && ack.epoch === epoch));
    } catch (error) {
      logger.warn({ err: error, producerId }, 'failed to read an ack of usage');
    }
  });
}

/** Asks the ledger for the acks of an epoch. They arrive as any other acks do, if there is a reply. */
function requestAcks(stream: Pick<UsageStream, 'requestAck'>, epochOfSpool: SpoolEpoch): void {
  const { producerId, epoch, shards } = epochOfSpool;
  const acked = Array.from({ length: shards }, (_, shard) => ({
    producerId,
    epoch,
    shard,
    n: epochOfSpool.ackedN(shard),
  })).filter(({ n }) => n > 0n);
  const query = create(UsageConfirmQuerySchema, { producerId, epochs: [epoch], acked });
  stream.requestAck(toBinary(UsageConfirmQuerySchema, query));
}
