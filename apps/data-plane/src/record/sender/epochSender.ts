import type { UsageStream } from '@weighbridge/bus';
import { USAGE_SHARDS } from '@weighbridge/contracts';
import type { SettledEvent, SpoolEpoch } from '../spool/types.ts';
import { listenForAcks, requestAcks } from './acks.ts';
import { ShardSender, type ShardSenderDeps } from './shardSender.ts';

export interface EpochSenderDeps extends ShardSenderDeps {
  readonly stream: UsageStream;
}

/** Sends one epoch of a spool until the ledger has confirmed all of it. */
export interface EpochSender {
  /** An event that was just settled. */
  add(event: SettledEvent): void;
  /** Sends what there is at once, and from now on each event as it comes. */
  flush(): void;
  stop(): Promise<void>;
}

/** Starts it: once the ledger said what it has of the epoch, or did not say so in time, where that is to be asked first. */
export function startEpochSender(
  deps: EpochSenderDeps,
  epoch: SpoolEpoch,
  { askFirst }: { readonly askFirst: boolean },
): EpochSender {
  const { stream, timing, nowMs, logger } = deps;
  const shards = Array.from({ length: USAGE_SHARDS }, (_, shard) => new ShardSender(deps, epoch, shard));
  let isLooking = false;
  let running: Promise<unknown> | undefined;

  const confirms = listenForAcks(deps, epoch, (heard) => {
    for (const { shard, n } of heard) shards[shard]?.ack(n);
    start();
  });

  function start(): void {
    clearTimeout(asking);
    running ??= Promise.all(shards.map((shard) => shard.run()));
  }

  /** Asks again what is there, of the ledger and of the stream. */
  async function look(): Promise<void> {
    if (isLooking || shards.every((shard) => shard.isAcked)) return;
    isLooking = true;
    try {
      requestAcks(stream, epoch);
      const looks = shards.map((shard) => shard.beginLook());
      const position = await stream.position();
      for (const look of looks) look(position);
    } catch (error) {
      logger.debug({ err: error }, 'the usage stream does not say where it stands');
    } finally {
      isLooking = false;
    }
  }

  const checking = setInterval(() => {
    const now = nowMs();
    if (shards.some((shard) => shard.stalledMs(now) >= timing.checkMs)) void look();
  }, timing.checkMs);
  const reconnects = stream.onReconnect(() => void look());
  const asking = askFirst ? setTimeout(start, timing.askMs) : undefined;
  if (askFirst) requestAcks(stream, epoch);
  else start();

  return {
    add: (event) => shards[event.shard]?.add(event),
    flush() {
      for (const shard of shards) shard.flush();
    },
    async stop() {
      clearInterval(checking);
      clearTimeout(asking);
      for (const shard of shards) shard.stop();
      await Promise.all([running, confirms.stop(), reconnects.stop()]);
    },
  };
}

/** How many events of an epoch the ledger has not confirmed. */
export function unackedIn(epoch: SpoolEpoch): number {
  return sumOverShards((shard) => epoch.lastN(shard) - epoch.ackedN(shard));
}

/** How many events an epoch has. */
export function eventsIn(epoch: SpoolEpoch): number {
  return sumOverShards((shard) => epoch.lastN(shard));
}

function sumOverShards(count: (shard: number) => bigint): number {
  return Array.from({ length: USAGE_SHARDS }, (_, shard) => Number(count(shard))).reduce((a, b) => a + b, 0);
}
