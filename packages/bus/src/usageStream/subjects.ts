import { MAX_USAGE_SHARDS } from '@weighbridge/contracts';

/** The JetStream stream of usage. */
export const STREAM = 'USAGE_EVENTS';
/** Producers ask here for the acks that they missed. */
export const ACK_REQUESTS = 'usage.confirm-queries';
export const ACK_REQUEST_GROUP = 'metering';
export const REFUSAL_GROUP = 'metering';
/** Notifications for whoever listens. */
export const EVENTS = 'events.v1';

const REFUSALS = 'usage.refusals';
const USAGE = 'usage.v2';
/** All usage: a shard, and the producer that sends it. */
export const SUBJECTS = `${USAGE}.*.*`;
const TOKEN = /^[\w-]+$|^\*$/;
const SHARD = /^usage\.v2\.s(\d{1,2})\./;

/** A shard's usage of one producer; either may be `*`. */
export function subjectOf(shard: number | '*', producerId: string): string {
  return `${USAGE}.${shard === '*' ? '*' : `s${shard}`}.${token(producerId)}`;
}

/** The shard of a subject of usage; undefined if no release has such a shard. */
export function shardOf(subject: string): number | undefined {
  const [, shard] = SHARD.exec(subject) ?? [];
  return shard !== undefined && Number(shard) < MAX_USAGE_SHARDS ? Number(shard) : undefined;
}

/** The producer at the end of a subject. NATS' permissions are by subject: who may not publish here is not that producer. */
export function producerOf(subject: string): string {
  return subject.slice(subject.lastIndexOf('.') + 1);
}

/** As `producerOf`, for a message of a stream of usage; undefined in that of release 0.1.0, whose subjects name none. */
export function senderOf(subject: string): string | undefined {
  return subject.startsWith(`${USAGE}.`) ? producerOf(subject) : undefined;
}

/** Batches of refused requests of one producer, or `*`. They are not in the stream: nothing may wait behind them. */
export function refusalSubjectOf(producerId: string): string {
  return `${REFUSALS}.${token(producerId)}`;
}

/** Release 0.1.0 sends to this stream and runs on no other, by shard alone. It is read, so that its proxies can go on. */
export const STREAM_OF_0_1_0 = 'USAGE';
export const SUBJECTS_OF_0_1_0 = 'usage.v1.*';
export const subjectOf010 = (shard: number): string => `usage.v1.s${shard}`;

export function ackSubjectOf(producerId: string): string {
  return `usage.confirms.${token(producerId)}`;
}

function token(producerId: string): string {
  if (TOKEN.test(producerId)) return producerId;
  throw new Error(`"${producerId}" is no producer id`);
}
