import { randomUUID } from 'node:crypto';
import { cp, mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ConsumerInfo, type JetStreamManager, jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect, type NatsConnection, nanos } from '@nats-io/transport-node';
import { NATS_USERS, type NatsRole, natsAddress, natsConfiguration, permissionsOf } from '@weighbridge/bus';
import { USAGE_SHARDS } from '@weighbridge/contracts';
import { eventually, freePort, startNats, type TestNats } from '@weighbridge/testing';
import { testedCheckout } from '../processes.ts';

/** Earlier releases have another stream, which is read too. */
const EARLIER_STREAM = 'USAGE';
const STREAM = testedCheckout === undefined ? 'USAGE_EVENTS' : EARLIER_STREAM;
const DURABLES = Array.from({ length: USAGE_SHARDS }, (_, shard) => `metering-s${shard}`);
const SHORT_ACK_WAIT_MS = 100;

/** A message of the usage stream as a proxy published it. */
export interface Captured {
  readonly subject: string;
  readonly messageId: string;
  readonly payload: Uint8Array;
}

/** A NATS server that can be killed, restored to an earlier state, and tampered with. */
export interface FaultyNats {
  /** For an operator. */
  readonly url: string;
  /** For the apps. */
  readonly urls: Readonly<Record<NatsRole, string>>;
  readonly isRunning: boolean;
  kill(): Promise<void>;
  /** Starts it again on the same port, with its store or a copy of an earlier one. */
  start(storeDir?: string): Promise<void>;
  /** Copies its store. Call it only while it is stopped or no one writes to it. */
  copyStore(): Promise<string>;
  readonly manager: JetStreamManager;
  /** The number of stored messages, and the last sequence number ever used. */
  state(): Promise<{ messages: number; lastSequence: number }>;
  deleteStream(): Promise<void>;
  /** Collects the messages published from now on, until `stop` is called. */
  capture(): { readonly messages: readonly Captured[]; stop(): Promise<void> };
  /** Publishes a message again; true if the stream took it for a duplicate. */
  publish(message: Captured, messageId?: string): Promise<boolean>;
  /** The message with this sequence number, and how to delete it. */
  read(sequence: number): Promise<Captured>;
  remove(sequence: number): Promise<void>;
  /**
   * Over all shards: the number of deliveries, of messages not yet delivered, and of those not yet acknowledged, but for those that
   * the ledger has.
   */
  deliveries(
    isRecorded?: IsRecorded,
  ): Promise<{ done: number; waiting: number; unacknowledged: number; where: string }>;
  /** Redelivers unacknowledged messages now instead of after a minute. No worker may run. */
  redeliver(): Promise<void>;
  close(): Promise<void>;
}

/** Whether the ledger has all of a message. */
type IsRecorded = (payload: Uint8Array) => Promise<boolean>;

/**
 * After a crash, NATS 2.9 awaits acks of messages that it has lost, and retains some that were acknowledged, without delivering
 * them again: of a shard, it awaits none if it has delivered all, and the ledger has each message that it still has of those.
 */
async function consumersOf(manager: JetStreamManager, isRecorded: IsRecorded): Promise<ConsumerInfo[]> {
  const held = new Map<string, number>();
  for await (const { config, state } of manager.streams.list()) held.set(config.name, state.messages);
  const streams = [...new Set([STREAM, EARLIER_STREAM])].filter((stream) => held.has(stream));
  if (streams.length === 0) throw new Error('there is no stream of usage');
  const found = streams.flatMap((stream) =>
    DURABLES.map(async (durable) => {
      const info = await manager.consumers.info(stream, durable);
      const { num_pending, num_ack_pending, ack_floor, delivered, config } = info;
      if (held.get(stream) === 0) return { ...info, num_pending: 0, num_ack_pending: 0 };
      if (num_pending > 0 || num_ack_pending === 0) return info;
      const subject = config.filter_subject ?? '';
      for (let seq = ack_floor.stream_seq + 1; ; ) {
        const from = { seq, next_by_subj: subject };
        const next = await manager.streams.getMessage(stream, from);
        if (!next || next.seq > delivered.stream_seq) return { ...info, num_ack_pending: 0 };
        if (!(await isRecorded(next.data))) return info;
        seq = next.seq + 1;
      }
    }),
  );
  return await Promise.all(found);
}

/** Each app has its own user, with the permissions of deploy/nats/users.conf and of shared responses. */
const USERS = NATS_USERS.map((one) =>
  one.user === 'data-plane'
    ? { ...one, permissions: permissionsOf('data-plane', { sharesCache: true }) }
    : one,
);
const CONFIGURATION = {
  text: natsConfiguration(USERS),
  env: Object.fromEntries(USERS.map(({ user, passwordVariable }) => [passwordVariable, `secret-of-${user}`])),
};

/** An earlier release takes no user from NATS_URL: for it, the server has none. */
export async function startFaultyNats(
  folder: string,
  { hasUsers = true }: { readonly hasUsers?: boolean } = {},
): Promise<FaultyNats> {
  const port = await freePort();
  const configuration = hasUsers ? { configuration: CONFIGURATION } : {};
  let server: TestNats = await startNats({ port, storeDir: join(folder, 'nats'), ...configuration });
  const urlFor = (user: string) =>
    hasUsers ? server.url.replace('://', `://${user}:secret-of-${user}@`) : server.url;
  let isRunning = true;
  const connection: NatsConnection = await connect({
    ...natsAddress(urlFor('operator')),
    name: 'faults',
    maxReconnectAttempts: -1,
    reconnectTimeWait: 100,
  });
  const manager = await jetstreamManager(connection, { timeout: 5_000 });
  const stream = jetstream(connection);

  return {
    url: urlFor('operator'),
    urls: { 'data-plane': urlFor('data-plane'), metering: urlFor('metering') },
    manager,
    get isRunning() {
      return isRunning;
    },
    kill() {
      isRunning = false;
      return server.stop('SIGKILL');
    },
    async start(storeDir = server.storeDir) {
      server = await startNats({ port, storeDir, ...configuration });
      isRunning = true;
      // The connection for tampering reconnects by itself.
      await eventually(() => manager.getAccountInfo(), { intervalMs: 100 });
    },
    async copyStore() {
      const copy = join(await mkdtemp(join(folder, 'store-')), 'nats');
      await cp(server.storeDir, copy, { recursive: true });
      return copy;
    },
    async state() {
      const { state } = await manager.streams.info(STREAM);
      return { messages: state.messages, lastSequence: state.last_seq };
    },
    async deleteStream() {
      await manager.streams.delete(STREAM);
    },
    capture() {
      const messages: Captured[] = [];
      const subscription = connection.subscribe('usage.v2.*.*', {
        callback: (_error, message) => {
          const messageId = message.headers?.get('Nats-Msg-Id') ?? '';
          messages.push({ subject: message.subject, messageId, payload: message.data });
        },
      });
      return { messages, stop: () => subscription.drain() };
    },
    async publish({ subject, payload }, messageId = randomUUID()) {
      const { duplicate } = await stream.publish(subject, payload, { msgID: messageId });
      return duplicate;
    },
    async read(sequence) {
      const message = await manager.streams.getMessage(STREAM, { seq: sequence });
      if (!message) throw new Error(`the stream has no message ${sequence}`);
      const messageId = message.header.get('Nats-Msg-Id');
      return { subject: message.subject, messageId, payload: message.data };
    },
    async remove(sequence) {
      await manager.streams.deleteMessage(STREAM, sequence);
    },
    async deliveries(isRecorded = async () => false) {
      const infos = await consumersOf(manager, isRecorded);
      const sum = (figure: (info: ConsumerInfo) => number) =>
        infos.reduce((all, one) => all + figure(one), 0);
      return {
        done: sum(({ delivered }) => delivered.consumer_seq),
        waiting: sum(({ num_pending }) => num_pending),
        unacknowledged: sum(({ num_ack_pending }) => num_ack_pending),
        where: infos
          .filter(({ num_pending, num_ack_pending }) => num_pending + num_ack_pending > 0)
          .map(
            (one) =>
              `${one.stream_name} ${one.name}: ${one.num_pending} and ${one.num_ack_pending}, acknowledged to ${one.ack_floor.stream_seq}, delivered to ${one.delivered.stream_seq}`,
          )
          .join(', '),
      };
    },
    async redeliver() {
      // The workers reset it when they start.
      for (const durable of DURABLES)
        await manager.consumers.update(STREAM, durable, { ack_wait: nanos(SHORT_ACK_WAIT_MS) });
      await sleep(3 * SHORT_ACK_WAIT_MS);
    },
    async close() {
      await connection.close();
      await server.stop();
    },
  };
}
